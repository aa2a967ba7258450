//! `vCont` about the kernel's threads, as the stub gets it about its CPUs.

use crate::rsp::thread_id::Which;

/// What becomes of a `vCont`.
#[derive(Debug, PartialEq, Eq)]
pub enum Resume {
    /// The stub gets this packet; the thread that is stepped, if one is named.
    Packet(String, Option<usize>),
    /// A thread is to be stepped that no CPU runs.
    Suspended(usize),
    /// An action that is not known.
    NotUnderstood,
}

/// One action: `c`, `C05`, `s:p1.2`, `r1000,1004:2`.
struct Action<'a> {
    kind: &'a str,
    which: Which,
}

impl<'a> Action<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let (kind, which) = match text.split_once(':') {
            Some((kind, which)) => (kind, Which::parse(which)?),
            None => (text, Which::All),
        };
        let is_hex = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit());
        let known = match kind.split_at_checked(1)? {
            ("c" | "s", "") => true,
            ("C" | "S", signal) => is_hex(signal),
            ("r", range) => range.split_once(',').is_some_and(|(start, end)| is_hex(start) && is_hex(end)),
            _ => false,
        };
        known.then_some(Self { kind, which })
    }

    fn steps(&self) -> bool {
        self.kind.starts_with(['s', 'S', 'r'])
    }

    /// The same in what the stub offers. A signal is for the thread that it came to.
    fn offered(&self, offered: Option<&[String]>) -> &str {
        let has = |kind: &str| offered.is_none_or(|all| all.iter().any(|known| known == kind));
        match self.kind.split_at_checked(1) {
            Some(("r", _)) if !has("r") => "s",
            Some(("S", _)) if !has("S") => "s",
            Some(("C", _)) if !has("C") => "c",
            _ => self.kind,
        }
    }
}

/// Translates the actions after `vCont;`. `cpu_of`: the CPU that runs a thread. `cpus`: the stub's numbers for them, empty
/// where it has none. `offered`: the kinds that the stub takes, where that is known.
pub(super) fn translate(
    actions: &str,
    cpu_of: &mut dyn FnMut(usize) -> Option<usize>,
    cpus: &[String],
    offered: Option<&[String]>,
) -> Resume {
    let actions: Option<Vec<Action<'_>>> = actions.split(';').map(Action::parse).collect();
    let Some(actions) = actions else { return Resume::NotUnderstood };
    let (mut parts, mut stepped, mut otherwise) = (Vec::new(), None, None);
    for action in &actions {
        match action.which {
            Which::One(id) => match cpu_of(id) {
                None if action.steps() => return Resume::Suspended(id),
                None => {}
                Some(cpu) => {
                    let name = cpus.get(cpu).map(|name| format!(":{name}")).unwrap_or_default();
                    parts.push(format!("{}{name}", action.offered(offered)));
                    stepped = stepped.or(action.steps().then_some(id));
                }
            },
            Which::All | Which::Any => otherwise = otherwise.or(Some(action.offered(offered))),
        }
    }
    // One CPU takes one action.
    if cpus.len() <= 1 {
        parts.truncate(1);
        otherwise = otherwise.filter(|_| parts.is_empty());
    }
    parts.extend(otherwise.map(str::to_owned));
    if parts.is_empty() {
        // Only threads that no CPU runs are to run on: that is for the kernel to choose.
        parts.push("c".to_owned());
    }
    Resume::Packet(format!("vCont;{}", parts.join(";")), stepped)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUNS: usize = 0x2000_0010;

    fn of(actions: &str, cpus: &[&str], offered: Option<&str>) -> Resume {
        let cpus: Vec<String> = cpus.iter().map(|c| (*c).to_owned()).collect();
        let offered: Option<Vec<String>> = offered.map(|all| all.split(';').map(str::to_owned).collect());
        let mut cpu_of = |id| match id {
            RUNS => Some(0),
            0x2000_0020 if cpus.len() > 1 => Some(1),
            _ => None,
        };
        translate(actions, &mut cpu_of, &cpus, offered.as_deref())
    }

    fn packet(text: &str, stepped: Option<usize>) -> Resume {
        Resume::Packet(text.to_owned(), stepped)
    }

    #[test]
    fn all_actions_are_the_cpus() {
        for (asked, got, stepped) in [
            ("c", "vCont;c", None),
            ("c:p1.-1", "vCont;c", None),
            ("s:p1.20000010;c:p1.-1", "vCont;s:p1.1", Some(RUNS)),
            ("s:20000010", "vCont;s:p1.1", Some(RUNS)),
            ("c:20000010", "vCont;c:p1.1", None),
            ("C05:20000010;c", "vCont;C05:p1.1", None),
            // Scheduler locking: the kernel still chooses who runs.
            ("c:20000030", "vCont;c", None),
            ("C05:20000030", "vCont;c", None),
            ("r1000,1004:20000010;c", "vCont;r1000,1004:p1.1", Some(RUNS)),
        ] {
            assert_eq!(of(asked, &["p1.1"], None), packet(got, stepped), "{asked}");
        }
        assert_eq!(of("s:20000010;c", &[], None), packet("vCont;s", Some(RUNS)));
        assert_eq!(of("s:20000030;c", &["1"], None), Resume::Suspended(0x2000_0030));
        assert_eq!(of("s:20000010;c:20000020;c", &["1", "2"], None), packet("vCont;s:1;c:2;c", Some(RUNS)));
    }

    #[test]
    fn only_what_the_stub_offers() {
        for (asked, got) in [("r1000,1004:20000010", "vCont;s:1"), ("S05:20000010", "vCont;s:1"), ("C05", "vCont;c")] {
            let Resume::Packet(packet, _) = of(asked, &["1"], Some("c;s")) else { panic!("{asked}") };
            assert_eq!(packet, got);
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        for asked in ["t", "", "c;;s", "r10:1", "Czz", "s:+1", "x:1"] {
            assert_eq!(of(asked, &["1"], None), Resume::NotUnderstood, "{asked}");
        }
    }
}
