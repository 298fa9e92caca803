//! What a model predicts, as one HTML document: pictures, tables, and the parameters behind them.

use maud::{PreEscaped, html};

use super::page::{Table, table};
use crate::frame;
use crate::svg::{self, Plot};

/// A prediction, ready to show.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prediction {
    /// The title.
    pub title: String,
    /// The answer, a sentence each.
    pub lead: Vec<String>,
    /// Pictures.
    pub plots: Vec<Plot>,
    /// Tables.
    pub tables: Vec<Table>,
    /// Parameters: names and ranges.
    pub parameters: Vec<(String, String)>,
    /// How to read it, a sentence each.
    pub how: Vec<String>,
}

impl Prediction {
    /// The prediction as one HTML document.
    pub fn html(&self) -> String {
        let body = html! {
            header {
                h1 { (self.title) }
                @for sentence in &self.lead { p.lead { (sentence) } }
                @for sentence in &self.how { p.faint { (sentence) } }
            }
            section.part {
                div.charts {
                    @for plot in &self.plots { figure { (PreEscaped(svg::inline(plot))) } }
                }
                @for found in &self.tables { (table(found)) }
            }
            @if !self.parameters.is_empty() {
                section.part { h2 { "Parameters" } (frame::facts(&self.parameters)) }
            }
        };
        frame::document(&self.title, &svg::style(), &body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_everything_and_escapes_it() {
        let page = Prediction {
            title: "<model>".into(),
            lead: vec!["first".into()],
            plots: vec![Plot { title: "picture".into(), ..Plot::default() }],
            tables: vec![Table { title: "table".into(), ..Table::default() }],
            parameters: vec![("batch".into(), "63".into())],
            how: vec!["how".into()],
        }
        .html();
        for part in ["&lt;model&gt;", "first", "picture", "table", "batch", "how"] {
            assert!(page.contains(part), "{part}: {page}");
        }
    }
}
