//! The first line: the price of a first touch here, and the kind of problem behind it.

use faultless_os::host::Host;
use faultless_prof::price::{Outcome, Prices};
use faultless_trace::measurement::{Bytes, Nanos};

/// If clearing takes less than this share even cache-cold, the fault itself dominates the price.
const LITTLE: f64 = 0.25;
/// If clearing takes more than this share even cache-hot, the bytes dominate the price.
const MUCH: f64 = 0.5;
/// THP count as cheaper from this factor on.
const CHEAPER: f64 = 1.2;

/// One sentence.
pub(super) fn line(host: &Host, prices: &Prices) -> String {
    let Some(touch) = prices.ns("first_touch") else {
        return format!("The price of a first touch could not be measured here: {}.", reason(prices));
    };
    let page = Bytes(prices.page_bytes);
    format!("A first touch costs {} per {page} here{}{}.", Nanos(touch), problem(prices), cure(host, prices))
}

fn reason(prices: &Prices) -> String {
    let price = prices.list.iter().find(|price| price.id == "first_touch");
    match price.map(|price| &price.outcome) {
        Some(Outcome::CannotSay(reason)) => reason.clone(),
        _ => "not measured".into(),
    }
}

fn problem(prices: &Prices) -> String {
    let Some((hot, cold)) = prices.clearing_share() else { return String::new() };
    let (low, high) = (hot.min(cold), hot.max(cold));
    let kind = if high < LITTLE {
        "faults are the problem"
    } else if low > MUCH {
        "bytes are the problem"
    } else {
        "faults and bytes both count"
    };
    format!(": {kind}")
}

fn cure(host: &Host, prices: &Prices) -> String {
    match (prices.thp_gain(), &host.thp) {
        (Some(gain), _) if gain >= CHEAPER => format!(", THP are {gain:.1}x cheaper"),
        (Some(gain), _) => format!(", THP hardly help ({gain:.1}x)"),
        (None, Some(thp)) if !thp.available() => ", THP are off".into(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use faultless_prof::price::Price;
    use faultless_trace::measurement::Summary;

    fn prices(touch: f64, hot: f64, cold: f64, thp: f64) -> Prices {
        let price = |id: &str, page_bytes, median| Price {
            id: id.into(),
            what: String::new(),
            page_bytes,
            resolution_ns: 0.0,
            outcome: Outcome::Measured(Summary { median, mad: 0.0, min: median, n: 3 }),
        };
        let list = vec![
            price("first_touch", 4096, touch),
            price("clear_hot", 4096, hot),
            price("clear_cold", 4096, cold),
            price("thp_touch", 2 << 20, thp * 512.0),
        ];
        Prices { list, page_bytes: 4096 }
    }

    #[test]
    fn dear_faults_and_cheap_clearing_point_at_faults() {
        assert_eq!(
            line(&Host::default(), &prices(1250.0, 25.0, 125.0, 156.25)),
            "A first touch costs 1.25 us per 4 KiB here: faults are the problem, THP are 8.0x cheaper."
        );
    }

    #[test]
    fn cheap_faults_and_dear_clearing_point_at_bytes() {
        let line = line(&Host::default(), &prices(250.0, 150.0, 200.0, 240.0));
        assert!(line.contains("bytes are the problem, THP hardly help (1.0x)"), "{line}");
    }
}
