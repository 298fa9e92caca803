//! The frame of all HTML pages: head, colours, a filter of rows, and a script that opens folded parts on
//! paper.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A whole document. `styles` come after the frame's own.
pub(crate) fn document(title: &str, styles: &str, body: &Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                link rel="icon" href="data:,";
                style { (PreEscaped(STYLE)) (PreEscaped(styles)) }
            }
            body {
                main { (body) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

/// A list of names and values.
pub(crate) fn facts(facts: &[(String, String)]) -> Markup {
    html! {
        dl.facts {
            @for (name, value) in facts { div { dt { (name) } dd { (value) } } }
        }
    }
}

/// Radio buttons that show the rows of one class. `choices` are classes and labels; `first` is the checked
/// one. Works without script.
pub(crate) fn filter(name: &str, choices: &[(&str, String)], first: usize) -> Markup {
    html! {
        @for (index, (class, label)) in choices.iter().enumerate() {
            input.choice type="radio" name=(name) id={ (name) "-" (class) } checked[index == first];
            label for={ (name) "-" (class) } { (label) }
        }
    }
}

/// Opens folded parts before printing, and makes rows searchable. Without script the page is still complete.
const SCRIPT: &str = "addEventListener('beforeprint',()=>document.querySelectorAll('details').forEach(d=>d.open=true));\
document.querySelectorAll('input[type=search]').forEach(i=>{i.hidden=false;i.addEventListener('input',()=>{\
const w=i.value.toLowerCase().split(/\\s+/);\
document.querySelectorAll('#'+i.dataset.of+' tbody tr').forEach(r=>{\
const t=r.textContent.toLowerCase();r.hidden=!w.every(x=>t.includes(x))})})});";

const STYLE: &str = "
:root{--ground:#f6f8fa;--card:#ffffff;--ink:#1f2328;--faint:#59636e;--rule:#d8dee4;--link:#0969da;
--good:#1a7f37;--good-ground:#dafbe1;--bad:#bc4c00;--bad-ground:#fff1e5;--none:#59636e;--none-ground:#eaeef2;--alarm:#cf222e}
@media screen and (prefers-color-scheme:dark){:root{--ground:#010409;--card:#0d1117;--ink:#e6edf3;--faint:#9198a1;--rule:#30363d;--link:#58a6ff;
--good:#3fb950;--good-ground:#12261e;--bad:#f0883e;--bad-ground:#2d1c10;--none:#9198a1;--none-ground:#21262d;--alarm:#ff7b72}}
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%}
body{margin:0;background:var(--ground);color:var(--ink);font:15px/1.5 system-ui,-apple-system,'Segoe UI','DejaVu Sans',sans-serif}
main{max-width:1160px;margin:0 auto;padding:24px 20px 48px}
h1{font-size:26px;line-height:1.25;margin:0 0 6px;overflow-wrap:anywhere}
h2{font-size:21px;line-height:1.3;margin:0 0 8px}
h3{font-size:16px;margin:22px 0 8px}
p{margin:6px 0}
a{color:var(--link);text-decoration:none}
a:hover{text-decoration:underline}
.lead{font-size:16px}
.faint{color:var(--faint)}
.part{background:var(--card);border:1px solid var(--rule);border-radius:12px;padding:20px;margin:20px 0}
nav{display:flex;flex-wrap:wrap;gap:6px 14px;margin:12px 0}
.scroll{overflow-x:auto;max-width:100%}
table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:left;vertical-align:top;padding:6px 12px 6px 0;border-bottom:1px solid var(--rule)}
th{color:var(--faint);font-weight:600;white-space:nowrap}
tr:last-child>td{border-bottom:0}
.figures td,.figures th{white-space:nowrap}
.figures .besides{white-space:normal;min-width:150px;font-size:13px}
.figures .right{text-align:right;font-variant-numeric:tabular-nums}
p,li,pre,code{overflow-wrap:anywhere}
.theirs td{color:var(--bad)}.theirs td:first-child{white-space:normal;min-width:130px}
td small{display:block;color:var(--faint);font-size:12px}
.dense td small{white-space:normal;min-width:92px}.figures .cell{white-space:normal;min-width:220px}
code,pre{font-family:ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;font-size:13px}
pre{background:var(--ground);border:1px solid var(--rule);border-radius:8px;padding:10px 12px;margin:6px 0;overflow-x:auto}
.verdict{display:inline-block;white-space:nowrap;border-radius:10px;padding:1px 9px;font-size:13px;font-weight:600}
.reproduced .verdict{color:var(--good);background:var(--good-ground)}
.refuted .verdict{color:var(--bad);background:var(--bad-ground)}
.unknown .verdict{color:var(--none);background:var(--none-ground)}
.alarm{border-left:4px solid var(--alarm);padding:4px 12px;margin:12px 0}
.alarm strong{color:var(--alarm)}
.wrong td{color:var(--alarm)}
.facts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,300px),1fr));gap:4px 20px;margin:8px 0}
.facts div{display:flex;gap:8px;min-width:0}
.facts dt{color:var(--faint);min-width:84px}
.facts dd{margin:0;overflow-wrap:anywhere}
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,400px),1fr));gap:14px;margin:14px 0}
.charts figure{margin:0;min-width:0}
.charts svg{display:block;width:100%;height:auto;max-width:560px}
.choice{position:absolute;opacity:0;pointer-events:none}
.choice+label{display:inline-block;border:1px solid var(--rule);border-radius:14px;padding:2px 11px;margin:0 6px 8px 0;font-size:13px;cursor:pointer}
.choice:checked+label{border-color:var(--link);color:var(--link);font-weight:600}
.choice:focus-visible+label{outline:2px solid var(--link)}
input[type=search]{font:inherit;font-size:14px;color:inherit;background:var(--card);border:1px solid var(--rule);border-radius:8px;padding:3px 10px;
width:100%;max-width:340px;margin:0 0 8px}
summary{cursor:pointer;margin:14px 0 8px;font-weight:600}
.document td{font-weight:600;padding-top:18px;border-bottom:2px solid var(--rule)}
@media (max-width:640px){
main{padding:16px 10px 32px}.part{padding:14px 12px;border-radius:10px}h1{font-size:22px}
.cards thead{display:none}.cards,.cards tbody,.cards tr,.cards td{display:block}
.cards tr{padding:10px 0;border-bottom:1px solid var(--rule)}.cards td{border:0;padding:1px 0;overflow-wrap:anywhere}
.cards td[data-name]::before{content:attr(data-name) ' ';color:var(--faint)}
pre{white-space:pre-wrap}.cards td:empty{display:none}.figures.cards td,.figures.cards .besides{white-space:normal;text-align:left;min-width:0;font-size:14px}.figures.cards .cell{display:block}
.figures.cards td{display:inline-block;margin-right:12px}.figures.cards td:first-child,.figures.cards .besides{display:block}
.figures.cards td small{display:inline;margin-left:5px}
.cards tr[hidden]{display:none}}
@page{margin:12mm}
@media print{body{background:#fff;font-size:10pt}main{max-width:none;padding:0}.part{border:0;padding:0;margin:14pt 0}
nav,.choice,.choice+label,input[type=search]{display:none}figure,tr{break-inside:avoid}h2,h3{break-after:avoid}
.charts{grid-template-columns:1fr 1fr}.scroll{overflow:visible}pre{white-space:pre-wrap}table{font-size:8pt}td small{font-size:7pt}th,td{padding:3pt 6pt 3pt 0}
.figures{font-size:7pt}.figures td,.figures th{white-space:normal;padding-right:4pt}.figures td small{font-size:6pt;min-width:0}.figures .cell{min-width:0}
.figures .besides{min-width:0;font-size:6pt}a{color:inherit}}
";
