//! What the command says.

use super::*;

fn report(
    trace: &Trace,
    names: &[Name],
    filters: &Filters,
) -> Result<Vec<tx_trace::report::Report>, (ErrorKind, String)> {
    let catalogue = threadx().catalogue(Names::Duo);
    let query = Query::compile(filters, trace, &catalogue).unwrap();
    let wish = ReportRequest { names: names.to_vec(), tracex: true, ..ReportRequest::default() };
    analysis::reports(trace, &catalogue, &query, &wish).map_err(|e| (e.kind, e.message))
}

#[test]
fn reports_have_the_names_of_tracex_with_a_suffix() {
    let trace = load(&Buffer { objects: registry(), ..Buffer::new(BASE) }.record(64, &sleeps(3)));
    let names = |of: &[Name]| -> Vec<&str> {
        report(&trace, of, &Filters::default()).unwrap().iter().map(|r| r.name).collect()
    };
    assert_eq!(
        names(&Name::ALL),
        ["profile_tracex", "stats_tracex", "threads_tracex", "services_tracex", "stack_tracex", "inversions_tracex"]
    );
    assert_eq!(names(&[Name::Stack]), ["stack_tracex"]);
    for report in report(&trace, &Name::ALL, &Filters::default()).unwrap() {
        assert!(report.rows.iter().all(|r| r.len() == report.columns.len()), "{}", report.name);
    }
}

#[test]
fn what_tracex_cannot_do_is_refused() {
    let trace = load(&Buffer { objects: registry(), ..Buffer::new(BASE) }.record(64, &sleeps(3)));
    for name in [Name::Blocked, Name::Latency] {
        let refused = report(&trace, &[name], &Filters::default()).unwrap_err();
        assert_eq!(refused, (ErrorKind::Failed, "TraceX has no such report".to_owned()));
    }
    let filters = Filters { to: Some(tx_trace::query::Position::Seq(3)), ..Filters::default() };
    assert_eq!(report(&trace, &[Name::Stats], &filters).unwrap_err().0, ErrorKind::Failed);
    let wide = Buffer { wide: true, objects: registry(), ..Buffer::new(BASE) }.record(16, &sleeps(2));
    let (wrong, why) = report(&load(&wide), &[Name::Stats], &Filters::default()).unwrap_err();
    assert!(wrong == ErrorKind::Failed && why.contains("ULONG"), "{why}");
}

#[test]
fn other_systems_are_refused() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qnx-ring.bin");
    let bytes = std::fs::read(file).unwrap();
    let qnx = ALL.iter().find(|f| f.name() == "qnx").copied().unwrap();
    let Some(found) = qnx.scan(&bytes, 4).first().cloned() else { panic!("the fixture holds a ring") };
    let mut memory = Flat::new(found.base, bytes);
    let hints = Hints { header: Some(found.base), ..Hints::default() };
    let located = qnx.locate(&mut memory, &NoSymbols, &hints).unwrap();
    let capture = located.capture(&mut memory, &NoSymbols, Extent::All).unwrap();
    let trace = capture.decode(&qnx.catalogue(Names::Duo), &DecodeOptions::default()).unwrap();
    let refused = numbers(&trace, false).unwrap_err();
    assert!(refused.message.contains("TraceX cannot read") && refused.message.contains("QNX"), "{refused}");
}
