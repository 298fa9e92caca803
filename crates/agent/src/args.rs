//! The flags.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand};
use faultless_console::pages::{CompletionsArgs, ManArgs};
use faultless_console::span;

use crate::tuning as t;

/// Watch the page faults of the whole machine, and give them to Prometheus or an OpenTelemetry collector.
///
/// One process a node. It counts faults, the CPU time in them and all CPU time by control group, container, systemd
/// unit and program, and watches huge pages, compaction and reclaim. The busiest groups have series of their own, the
/// others are summed up. Root sees what a fault costs in each program. Other users see the same counts, at the price of
/// a fault that the agent measured in itself when it began.
#[derive(Debug, Parser)]
#[command(
    name = "faultless-agent",
    bin_name = "faultless agent",
    version,
    args_conflicts_with_subcommands = true,
    subcommand_help_heading = "Other uses",
    disable_help_subcommand = true,
    after_help = "\
EXAMPLES
  faultless agent
  faultless agent --once | grep fault_seconds
  faultless agent --otlp http://collector:4318
  faultless agent --record /var/lib/faultless/recordings --pprof http://pyroscope:4040
  faultless agent --listen 0.0.0.0:9478 --token-file token --tls-cert cert.pem --tls-key key.pem

Exit status: 0 after SIGTERM or SIGINT, 2 if it could not start."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
    #[command(flatten)]
    pub(crate) options: Options,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    Man(ManArgs),
    Completions(CompletionsArgs),
}

#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(group = clap::ArgGroup::new("receiver").args(["otlp", "pyroscope", "pprof"]).multiple(true))]
pub(crate) struct Options {
    /// Time between polls, from 1s to 300s.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = interval)]
    pub(crate) interval: Duration,
    /// Control groups with series of their own, and as many programs. The others are summed up.
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) top: u16,
    /// Most CPU time the agent may take, recordings apart, in per cent of one processor. Beyond it, polls become rarer.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = budget)]
    pub(crate) budget: f64,
    /// Time every fault in the kernel instead of short bursts: exact seconds, for 0.3 us a fault in the programs that
    /// take them. Needs CAP_BPF too.
    #[arg(long)]
    pub(crate) every_fault: bool,
    /// Print the metrics of one interval in Prometheus's text format, and end.
    #[arg(long, conflicts_with_all = ["listen", "otlp", "pyroscope", "record"])]
    pub(crate) once: bool,

    /// Address of /metrics and /healthz. Beyond this machine, a token and TLS are required.
    #[arg(long, value_name = "ADDRESS", default_value = t::LISTEN, help_heading = "Scrapes")]
    pub(crate) listen: SocketAddr,
    /// Require the token in this file, as `Authorization: Bearer TOKEN`.
    #[arg(long, value_name = "FILE", help_heading = "Scrapes")]
    pub(crate) token_file: Option<PathBuf>,
    /// Certificate chain, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "Scrapes")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// Its private key, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "Scrapes")]
    pub(crate) tls_key: Option<PathBuf>,

    /// Record for 2s, now and then, the program that has lost most CPU time in faults since its last recording: why it
    /// faults becomes metrics, and the recording Parquet files below DIR.
    #[arg(long, value_name = "DIR", help_heading = "Recordings", value_hint = clap::ValueHint::DirPath)]
    pub(crate) record: Option<PathBuf>,
    /// Most CPU time that recordings may take, in per cent of one processor. Beyond it, they become rarer.
    #[arg(long, value_name = "PERCENT", default_value = "0.5", value_parser = budget, requires = "record", help_heading = "Recordings")]
    pub(crate) record_budget: f64,
    /// Space for the recordings of this machine in DIR. The oldest go first.
    #[arg(long, value_name = "MIB", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..), requires = "record", help_heading = "Recordings")]
    pub(crate) record_mib: u32,

    /// Push each poll to this OTLP receiver over HTTP, such as http://collector:4318.
    #[arg(long, value_name = "URL", value_parser = url, help_heading = "Pushes")]
    pub(crate) otlp: Option<String>,
    /// Push the functions that touch, from rare samples, to this Pyroscope, such as http://pyroscope:4040.
    #[arg(long, value_name = "URL", value_parser = url, help_heading = "Pushes")]
    pub(crate) pyroscope: Option<String>,
    /// Push each recording in pprof's format to this Pyroscope.
    #[arg(long, value_name = "URL", value_parser = url, requires = "record", help_heading = "Pushes")]
    pub(crate) pprof: Option<String>,
    /// Send the token in this file with each push.
    #[arg(long, value_name = "FILE", requires = "receiver", help_heading = "Pushes")]
    pub(crate) push_token_file: Option<PathBuf>,
    /// Certificates to trust for https, PEM [default: those of the system].
    #[arg(long, value_name = "FILE", requires = "receiver", help_heading = "Pushes")]
    pub(crate) ca_file: Option<PathBuf>,
    /// Memory for what a receiver has not taken yet. The oldest goes first.
    #[arg(long, value_name = "MIB", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Pushes")]
    pub(crate) spool_mib: u32,
}

fn interval(text: &str) -> Result<Duration, String> {
    match span(text)? {
        time if (t::INTERVAL_MIN..=t::INTERVAL_MAX).contains(&time) => Ok(time),
        _ => Err("expected a time from 1s to 300s".into()),
    }
}

fn budget(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err("expected a number above 0 and up to 100".into()),
    }
}

fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && has_port(rest) => Ok(text.to_owned()),
        _ => Err("expected http://HOST:PORT or https://HOST:PORT".into()),
    }
}

/// Whether what stands behind the host, if anything does, is a port.
fn has_port(rest: &str) -> bool {
    let host = rest.split('/').next().unwrap_or_default();
    // The colons of an IPv6 address are in brackets.
    let behind = host.rsplit_once(']').map_or(host, |(_, behind)| behind);
    behind.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_are_consistent_and_bounded() {
        use clap::CommandFactory;
        Args::command().debug_assert();
        assert!(["500ms", "301s", "15", "x"].iter().all(|text| interval(text).is_err()));
        assert_eq!(interval("15s"), Ok(Duration::from_secs(15)));
        assert!(budget("0").is_err() && budget("nan").is_err() && budget("0.5").is_ok());
        assert!(
            url("http://c:99999").is_err() && url("http://[::1]:80/x").is_ok() && url("http://[::1]").is_ok()
        );
        assert!(url("collector:4318").is_err() && url("http:///x").is_err() && url("https://c").is_ok());
    }
}
