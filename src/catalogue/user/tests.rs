use proptest::prelude::*;

use super::*;
use crate::catalogue::{Catalogue, Names};

const IDS: RangeInclusive<u32> = 4096..=65535;

fn events(text: &str) -> Vec<(u32, String)> {
    parse(text, &IDS).unwrap().user.events.into_iter().map(|e| (e.id, e.name)).collect()
}

fn wrong(text: &str) -> String {
    parse(text, &IDS).unwrap_err().to_string()
}

#[test]
fn a_table_has_names_arguments_words_and_sentences() {
    let text = "# mine\nid\tname\ti1\ti2\ti3\ti4\tlabel\n\
                4096\tBOOT\tstep\n\
                0x1001\tSAMPLE\tnumber:dec\tvalue:hex\t\t\tsample {number} of {i2}\n\
                5000\tGATE\t\tstate:dec:gate\tmask:flags:lines\n\
                enum\tgate\t0\tshut\nenum\tgate\t1\topen\nbits\tlines\t0x10\trx\n";
    let parsed = parse(text, &IDS).unwrap();
    assert_eq!((parsed.kind, parsed.lines.as_slice()), (Some(Kind::Tsv), [3, 4, 5].as_slice()));
    let all = &parsed.user.events;
    assert_eq!(all[0].fields[0].as_ref().map(|f| (f.name.as_str(), f.kind)), Some(("step", ArgKind::Dec)));
    assert_eq!((all[1].id, all[1].fields.len(), all[1].template.as_str()), (4097, 2, "sample {number} of {i2}"));
    assert!(all[2].fields[0].is_none());
    assert_eq!(all[2].fields[1].as_ref().unwrap().words.as_ref().unwrap().word(1), Some("open"));
    assert!(all[2].fields[2].as_ref().unwrap().words.as_ref().unwrap().bits);
    assert_eq!(parse(&parsed.user.to_tsv(), &IDS).unwrap().user, parsed.user);
}

#[test]
fn what_is_wrong_in_a_table_is_reported_with_its_line() {
    for (text, line, says) in [
        ("4096 BOOT\n", 1, "tabs separate"),
        ("4096\tBOOT\nx\tA\n", 2, "not an id"),
        ("4096\tBOOT\n4096\tAGAIN\n", 2, "in line 1"),
        ("4096\t\n", 1, "needs a name"),
        ("4096\t17\n", 1, "begins with a letter"),
        ("4096\tA\tx:colour\n", 1, "not a kind"),
        ("4096\tA\tx y\n", 1, "not a name of an argument"),
        ("4096\tA\tx:dec:gone\n", 1, "line of this file defines 'gone'"),
        ("4096\tA\ta\tb\tc\td\tlabel\tmore\n", 1, "more than"),
        ("4096\tA\tx\t\t\t\t{y} is not there\n", 1, "'{y}'"),
        ("4096\tA\nenum\te\tone\tword\n", 2, "not a number"),
        ("4096\tA\nenum\te\t1\tword\nbits\te\t2\tw\n", 3, "enum and bits"),
    ] {
        let wrong = parse(text, &IDS).unwrap_err();
        assert!(wrong.line == line && wrong.message.contains(says), "{text:?}: {wrong:?}");
    }
    assert!(wrong("").contains("neither"));
    assert!(wrong("\u{1}\u{2}").contains("neither"));
    assert!(wrong("id\tname\n").contains("names no event"));
}

#[test]
fn a_sentence_has_words_names_and_braces() {
    let parts = |text: &str| Template::parse(text).unwrap().parts;
    assert_eq!(
        parts("a {i1}{n}{{x}}"),
        [Part::Text("a ".into()), Part::Word(0), Part::Field("n".into()), Part::Text("{x}".into())]
    );
    assert_eq!(parts("open {i1"), [Part::Text("open {i1".into())]);
    assert_eq!(parts("{i0}"), [Part::Field("i0".into())]);
    assert_eq!(Template::parse(""), None);
}

#[test]
fn trxc_as_the_manual_shows_it() {
    let text = "//Custom event icon definitions\n//Events from 4096 through 65535\nStart\n\
                4096,First_User_Event,FE,(255,0,0),(0,255,0),First_Info1,First_Info2,First_Info3,First_Info4\n\
                4098, Second Event , SE, (255,0,0), (0,255,0), stack ptr,,,\nEnd\nanything\n";
    let parsed = parse(text, &IDS).unwrap();
    assert_eq!(parsed.kind, Some(Kind::Trxc));
    let all = &parsed.user.events;
    assert_eq!((all[0].id, all[0].name.as_str(), all[0].fields.len()), (4096, "First_User_Event", 4));
    assert_eq!((all[1].name.as_str(), all[1].fields.len()), ("Second Event", 1));
    assert_eq!(all[1].fields[0].as_ref().unwrap().name, "stack_ptr");
    let written = parsed.user.to_trxc();
    assert_eq!(parse(&written, &IDS).unwrap().user, parsed.user);
    // Thirteen parts between commas, as TraceX counts them.
    assert!(written.lines().filter(|l| l.starts_with('4')).all(|l| l.split(',').count() == 13), "{written}");
}

#[test]
fn what_is_wrong_in_a_trxc() {
    assert!(wrong("//x\nStart\nEnd\n").contains("names no event"));
    assert!(wrong("Start\nx,NAME\nEnd\n").starts_with("2: 'x' is not an event number"));
    assert!(wrong("Start\n4096\nEnd\n").contains("1 parts"));
    assert!(wrong("Start\n4096,A\n4096,B\nEnd\n").starts_with("3: "));
    assert_eq!(parse("Start\n4096,A\n", &IDS).unwrap().notes.len(), 1);
}

#[test]
fn a_header_gives_macros_and_enumerators() {
    let text = "/* ids of events */\n#ifndef EV_H\n#define EV_H\n\
                #define EV_BASE 4096u // where they begin\n\
                #define EV_A (EV_BASE + 1)\n\
                #define EV_B ((uint32_t)0x1002UL)\n\
                #define EV_C (EV_LATER | 3)\n\
                #define EV_LATER (1 << 12)\n\
                #define EV_D \\\n  UINT32_C(4100)\n\
                #define EV_LOG(x) tx_trace_user_event_insert(EV_A, x, 0, 0, 0)\n\
                #define NAME \"4200\"\n\
                #define STACK 1024\n\
                typedef enum app { X_A = EV_BASE + 0x10, /* , } */ X_B, X_C = X_A + 5,\n X_D, } app_t;\n\
                enum class other : uint16_t { Y = 5'000 };\n\
                enum app f(enum app x);\n#endif\n";
    let names: Vec<(u32, String)> = events(text);
    let wanted = [
        (4096, "EV_BASE"),
        (4097, "EV_A"),
        (4098, "EV_B"),
        (4099, "EV_C"),
        (4100, "EV_D"),
        (4112, "X_A"),
        (4113, "X_B"),
        (4117, "X_C"),
        (4118, "X_D"),
        (5000, "Y"),
    ];
    let mut names = names.iter().map(|(id, n)| (*id, n.as_str())).collect::<Vec<_>>();
    // EV_LATER has the value of EV_BASE: another name for the same id.
    names.sort_unstable();
    assert_eq!(names, [(4096, "EV_LATER")].into_iter().chain(wanted.into_iter().skip(1)).collect::<Vec<_>>());
}

#[test]
fn of_several_names_the_one_that_is_no_mark_is_taken() {
    let all = parse("enum { EV_FIRST = 4096, EV_BOOT = 4096, EV_STOP, EV_LAST = EV_STOP };", &IDS).unwrap().user.events;
    let all: Vec<_> = all.iter().map(|e| (e.name.as_str(), e.alias.as_str())).collect();
    assert_eq!(all, [("EV_BOOT", "EV_FIRST"), ("EV_STOP", "EV_LAST")]);
}

#[test]
fn a_value_that_a_header_does_not_define_is_reported() {
    let parsed = parse("enum { A = 4096, B = ELSEWHERE, C, D = 4100 };\n", &IDS).unwrap();
    assert_eq!(parsed.user.events.iter().map(|e| e.id).collect::<Vec<_>>(), [4096, 4100]);
    assert!(parsed.notes[0].1.contains("B has a value that this file does not define"), "{:?}", parsed.notes);
    assert!(wrong("#define A 1\n").contains("no name with a value from 4096 to 65535"));
    assert!(wrong("#define A B\n#define B A\n").contains("no name"));
    let twice = parse("#ifdef X\n#define A 4096\n#else\n#define A 4097\n#endif\n", &IDS).unwrap();
    assert_eq!((twice.user.events[0].id, twice.notes.len()), (4096, 1));
}

#[test]
fn expressions_of_c() {
    let value = |text: &str| expr::value(&expr::tokens(text), 0, &mut |n, _| (n == "K").then_some(7));
    for (text, wanted) in [
        ("1 + 2 * 3", Some(7)),
        ("(1 | 2) << 4", Some(48)),
        ("1 << 2 + 1", Some(8)),
        ("10 - 3 - 2", Some(5)),
        ("(K)", Some(7)),
        ("(K) + 1", Some(8)),
        ("(unsigned int) -1 + 2", Some(1)),
        ("(my_type)(K)", Some(7)),
        ("~0 & 0xFF", Some(255)),
        ("'A'", Some(65)),
        ("010", Some(8)),
        ("0b101", Some(5)),
        ("4'096ul", Some(4096)),
        ("1.5", None),
        ("1 / 0", None),
        ("1 << 99", None),
        ("9223372036854775807 + 1", None),
        ("f(1)", None),
        ("", None),
        ("1 1", None),
        ("(1", None),
        ("sizeof(int)", None),
    ] {
        assert_eq!(value(text), wanted, "{text}");
    }
    assert_eq!(value(&"(".repeat(100_000)), None, "deep, but bounded");
    assert_eq!(value(&"-".repeat(100_000)), None);
}

#[test]
fn long_chains_of_macros_end() {
    let mut text = String::from("#define M0 4096\n");
    for i in 1..5000 {
        text.push_str(&format!("#define M{i} (M{} + M{})\n", i - 1, i - 1));
    }
    assert_eq!(
        events(&text),
        [(4096, "M0".to_owned()), (8192, "M1".into()), (16384, "M2".into()), (32768, "M3".into())]
    );
    let mut backwards = String::new();
    for i in 0..5000 {
        backwards.push_str(&format!("#define M{i} (M{} + 0)\n", i + 1));
    }
    backwards.push_str("#define M5000 4096\n");
    assert_eq!(events(&backwards).len(), 1, "those near its end are found");
}

#[test]
fn the_system_s_own_ids_are_refused() {
    let mut all = Catalogue::threadx(Names::Duo);
    let event = |id| UserEvent { id, name: "MINE".into(), ..UserEvent::default() };
    assert!(all.put_user(&event(10)).unwrap_err().contains("tx_block_allocate"));
    assert!(all.put_user(&event(4000)).is_ok() && all.put_user(&event(4096)).is_ok());
    assert!(all.put_user(&UserEvent { name: "OTHER".into(), ..event(4096) }).is_ok());
    let own = all.named("other").unwrap();
    assert_eq!((own.id, own.class.as_str(), own.macro_name.as_str()), (4096, "TX_TRACE_USER_EVENTS", ""));
    assert!(all.named("MINE").is_some_and(|d| d.id == 4000));
    assert_eq!(
        (all.user_ids(), all.made_up_name(4097), all.made_up_name(4095)),
        (Some(4096..=65535), "user_4097".to_owned(), "event_4095".to_owned())
    );
}

fn word() -> impl Strategy<Value = String> {
    "[A-Za-z_][A-Za-z0-9_ .]{0,12}[a-z0-9]".prop_map(|s| s)
}

fn user() -> impl Strategy<Value = UserEvents> {
    let words = || {
        prop::collection::btree_map(
            "[a-z][a-z0-9_]{0,6}",
            (any::<bool>(), prop::collection::vec((any::<u32>(), word()), 1..4)),
            0..3,
        )
    };
    let field = prop::option::of(("[a-z][a-z0-9_]{0,10}", 0..11usize, any::<prop::sample::Index>(), any::<bool>()));
    let event = (word(), prop::collection::vec(field, 0..=4), "[ a-z]{0,5}(\\{i[1-4]\\})?");
    (words(), prop::collection::btree_map(4096u32..=65535, event, 1..20)).prop_map(|(words, events)| {
        let enumerations: Vec<Arc<Enumeration>> = words
            .into_iter()
            .map(|(name, (bits, words))| {
                Arc::new(Enumeration { name, bits, words: words.into_iter().map(|(v, w)| (u64::from(v), w)).collect() })
            })
            .collect();
        let events = events.into_iter().map(|(id, (name, fields, template))| {
            let mut fields: Vec<Option<FieldDef>> = fields
                .into_iter()
                .map(|f| {
                    let (name, kind, which, has) = f?;
                    let kinds = [
                        "ptr",
                        "thread_ptr",
                        "stack_ptr",
                        "addr",
                        "hex",
                        "dec",
                        "ticks",
                        "state",
                        "flags",
                        "ip",
                        "size",
                    ];
                    let words = (has && !enumerations.is_empty()).then(|| Arc::clone(which.get(&enumerations)));
                    Some(FieldDef::new(&name, ArgKind::parse(kinds[kind]).unwrap(), words))
                })
                .collect();
            while fields.last().is_some_and(Option::is_none) {
                fields.pop();
            }
            UserEvent { id, name, fields, template: template.trim().to_owned(), ..UserEvent::default() }
        });
        UserEvents { events: events.collect(), enumerations }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_table_reads_back_as_what_was_written(user in user()) {
        let text = user.to_tsv();
        prop_assert_eq!(parse(&text, &IDS).unwrap().user, user, "{}", text);
    }

    #[test]
    fn a_trxc_reads_back_as_what_was_written(user in user()) {
        let once = parse(&user.to_trxc(), &IDS).unwrap().user;
        prop_assert_eq!(
            once.events.iter().map(|e| (e.id, &e.name)).collect::<Vec<_>>(),
            user.events.iter().map(|e| (e.id, &e.name)).collect::<Vec<_>>()
        );
        prop_assert_eq!(parse(&once.to_trxc(), &IDS).unwrap().user, once);
    }

    #[test]
    fn no_text_is_too_strange(text in any::<String>(), start in prop::sample::select(vec!["", "Start\n", "#define A ", "enum { A = 4096, ", "4096\t"])) {
        drop(parse(&format!("{start}{text}"), &IDS));
    }

    #[test]
    fn no_c_is_too_strange(text in "[-+|&<>(){},;=#/*'\"\\\\ \n0-9a-zA-Z_]{0,200}") {
        drop(parse(&format!("enum {{ A = 4096, {text}"), &IDS));
        drop(parse(&format!("#define A {text}"), &IDS));
    }
}
