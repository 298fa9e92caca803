//! The totals of a search, as ripgrep prints them.
//!
//! In: the counts of the printers. Out: text, or a line of JSON. This module does not print.

use std::time::Duration;

use grep_printer::Stats;

pub(crate) fn text(stats: &Stats, elapsed: Duration, json: bool) -> String {
    if json {
        let elapsed_total = serde_json::json!({
            "secs": elapsed.as_secs(),
            "nanos": elapsed.subsec_nanos(),
            "human": format!("{:0.6}s", elapsed.as_secs_f64()),
        });
        let data = serde_json::json!({ "stats": stats, "elapsed_total": elapsed_total });
        return format!("{}\n", serde_json::json!({ "type": "summary", "data": data }));
    }
    format!(
        "\n{} matches\n{} matched lines\n{} files contained matches\n{} files searched\n{} bytes printed\n{} bytes searched\n\
         {:0.6} seconds spent searching\n{:0.6} seconds total\n",
        stats.matches(),
        stats.matched_lines(),
        stats.searches_with_match(),
        stats.searches(),
        stats.bytes_printed(),
        stats.bytes_searched(),
        stats.elapsed().as_secs_f64(),
        elapsed.as_secs_f64(),
    )
}
