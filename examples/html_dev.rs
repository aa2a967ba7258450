#![allow(missing_docs, clippy::unwrap_used, clippy::print_stderr)]
use tx_trace::explain::{Case, Events, Explanation, Trust};
use tx_trace::output::html::{Html, Page};
use tx_trace::output::NoNames;
use tx_trace::query::{Filters, Query};
use tx_trace::timeline::{Noted, Plan};
use tx_trace::Target;
fn main() {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let out = args.remove(0);
    let t = std::time::Instant::now();
    let mut target = Target::open(args.iter().map(std::path::PathBuf::from).collect::<Vec<_>>()).unwrap();
    let loaded = target.trace().unwrap();
    let kernel = target.kernel(None).ok();
    let events = Events::of(&loaded.trace, &loaded.catalogue);
    let trust = Trust { was_running: false, other_build: false };
    let e = Explanation::of(&Case { kernel: kernel.as_ref(), events: Some(&events), trust });
    let noted: Vec<Noted> = e.findings.iter().map(|f| Noted { code: f.code.name(), claim: f.claim.clone(), events: f.evidence.iter().filter_map(|e| e.seq).collect(), threads: f.threads.clone() }).collect();
    let query = Query::compile(&Filters::default(), &loaded.trace, &loaded.catalogue).unwrap();
    let plan = Plan::of(&loaded.trace, &loaded.catalogue, &query, &noted, &mut |_| {}).unwrap();
    let headline = Some(e.findings.first().map_or("Nothing wrong found".into(), |f| format!("{}: {}", f.code.name(), f.claim)));
    let page = Page { title: args.last().unwrap().clone(), facts: vec![("source", args.join(" "))], headline, findings: Some(&e.findings), not_checked: &e.not_checked, documents: vec![] };
    eprintln!("plan {:?}", t.elapsed());
    let mut html = Html::new(std::fs::File::create(&out).unwrap(), &NoNames, "x", page);
    plan.play(&mut html, &mut |_| {}).unwrap();
    let size = std::fs::metadata(&out).unwrap().len();
    eprintln!("{} events {} bytes {:.2} a event {:?}", plan.scene().kept, size, size as f64 / plan.scene().kept as f64, t.elapsed());
}
