use super::*;

#[test]
fn a_modelled_claim_says_nothing_of_an_empty_record_and_names_its_rows() {
    let claims = all().unwrap();
    let found: Vec<Finding> =
        claims.iter().filter_map(|claim| claim.judge_modelled(&Results::default())).collect();
    assert_eq!(found.len(), 36);
    let told = format!("judges {} of the third document's claims", found.len());
    let methodology =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../METHODOLOGY.md")).unwrap();
    assert!(methodology.contains(&told), "METHODOLOGY.md does not say: {told}");
    for finding in found {
        assert_eq!(finding.verdict, Verdict::CannotSay);
        assert!(
            finding.why.starts_with("not in this record; decided by `faultless lab kernel run`; rests on "),
            "{}",
            finding.why
        );
    }
}

#[test]
fn a_model_agrees_differs_or_cannot_say_and_decides_only_what_was_not_measured() {
    let judged = |ns: &[f64]| {
        let rule = "judge = \"near\"\ntimes = 2.0\nunit = \"ns\"\nmeasure = \"a.first.wall_ns\"\nrests_on = \"a row\"";
        let text = file(&format!(
            "judge = \"not-measured\"\nwhy = \"no kernel\"\ndecides = \"one\"\n[claim.modelled]\n{rule}"
        ));
        let row = |(round, ns): (u32, &f64)| row("touch threads=1", round, "first", "wall_ns", *ns);
        let samples = results(&[(1..).zip(ns).map(row).collect()]);
        read(&text).unwrap()[0].judge_modelled(&samples).unwrap()
    };
    // A single count is exact.
    let agrees = judged(&[2.0]);
    assert_eq!((agrees.verdict, agrees.ours.as_str()), (Verdict::Agrees, "2.00 ns"));
    assert!(agrees.why.ends_with("rests on a row"), "{}", agrees.why);
    assert_eq!(judged(&[3.0]).verdict, Verdict::Differs);
    assert_eq!(judged(&[1.0, 2.0, 3.0]).verdict, Verdict::CannotSay);
    assert_eq!(judged(&[]).verdict, Verdict::CannotSay);
    let measured = |verdict| Finding { verdict, ours: "1".into(), why: "measured so".into() };
    let (main, beside) = measured(Verdict::Refuted).with_model(Some(agrees.clone()));
    assert_eq!((main.verdict, beside), (Verdict::Refuted, Some(agrees.clone())));
    let (main, beside) = measured(Verdict::CannotSay).with_model(Some(agrees));
    assert_eq!((main.verdict, beside), (Verdict::Agrees, None));
    assert!(main.why.ends_with("measured: measured so"), "{}", main.why);
}
