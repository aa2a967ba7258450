//! docs/ci.md: its jobs are YAML, and their steps run on the firmware in QEMU. docs/editors.md: its settings are JSON.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::{blocks, root};
use crate::support::machine::{Scratch, fixture, free_port};
use crate::support::programs::installed;

/// The job for GitHub and the one for GitLab.
fn jobs() -> [Value; 2] {
    let jobs: Vec<Value> =
        blocks("docs/ci.md", "yaml").iter().map(|text| serde_yaml_ng::from_str(text).unwrap()).collect();
    jobs.try_into().unwrap()
}

/// A directory with the firmware that dies, and a `tx-trace` on the PATH.
struct Runner {
    scratch: Scratch,
    port: u16,
}

impl Runner {
    fn new(name: &str) -> Self {
        let scratch = Scratch::new(name);
        std::fs::copy(fixture("cm3.elf"), scratch.path("app.elf")).unwrap();
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_tx-trace"), scratch.path("tx-trace")).unwrap();
        Self { scratch, port: free_port() }
    }

    /// The exit code of a step, and what it printed.
    fn step(&self, script: &str) -> (i32, String) {
        let script = script.replace("1234", &self.port.to_string()).replace("sleep 10", "sleep 3");
        let path = format!("{}:{}", self.scratch.path("").display(), std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-e", "-c", &script]).current_dir(self.scratch.path("")).env("PATH", path);
        for variable in ["TX_TRACE_ELF", "TX_TRACE_REMOTE", "TX_TRACE_LEAVE"] {
            shell.env_remove(variable);
        }
        let done = shell.env("GITHUB_STEP_SUMMARY", self.scratch.path("summary.md")).output().unwrap();
        let text = [done.stdout, done.stderr].map(|t| String::from_utf8_lossy(&t).into_owned()).concat();
        (done.status.code().unwrap(), text)
    }

    fn has(&self, name: &str) {
        let size = std::fs::metadata(self.scratch.path(name)).map_or(0, |file| file.len());
        assert!(size > 100, "{name}: {size} bytes");
    }
}

#[test]
fn the_job_for_github_finds_the_crash_and_keeps_the_evidence() {
    require!(installed("qemu-system-arm"));
    let [github, _] = jobs();
    let steps = github["jobs"]["run"]["steps"].as_array().unwrap();
    let run = |name: &str| {
        let step = steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no step {name}"));
        step["run"].as_str().unwrap().to_owned()
    };
    let runner = Runner::new("github");
    let (code, said) = runner.step(&run("Run"));
    assert_eq!(code, 0, "{said}");
    let (code, said) = runner.step(&run("Judge"));
    assert!(code == 1 && said.contains("HardFault"), "{code} {said}");
    let (code, said) = runner.step(&run("Report"));
    assert_eq!(code, 0, "{said}");
    ["evidence.core", "evidence.html", "summary.md"].iter().for_each(|name| runner.has(name));
    // What is kept is what there is.
    let kept = steps.iter().find(|step| step["name"] == "Keep the evidence").unwrap();
    kept["with"]["path"].as_str().unwrap().lines().for_each(|name| runner.has(name));
}

#[test]
fn the_job_for_gitlab_finds_the_crash_and_keeps_the_evidence() {
    require!(installed("qemu-system-arm"));
    let [_, gitlab] = jobs();
    let job = &gitlab["firmware"];
    let lines = |name: &str| {
        let lines: Vec<&str> = job[name].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        lines.into_iter().filter(|line| !line.starts_with("make ")).collect::<Vec<_>>().join("\n")
    };
    let runner = Runner::new("gitlab");
    let (code, said) = runner.step(&lines("script"));
    assert!(code == 1 && said.contains("HardFault"), "{code} {said}");
    let (code, said) = runner.step(&lines("after_script"));
    assert_eq!(code, 0, "{said}");
    job["artifacts"]["paths"].as_array().unwrap().iter().for_each(|name| runner.has(name.as_str().unwrap()));
}

#[test]
fn the_settings_of_editors_are_json() {
    let settings = blocks("docs/editors.md", "json");
    assert_eq!(settings.len(), 2);
    for text in settings {
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(value["configurations"][0]["request"], "attach", "{text}");
    }
}

/// The project's own job, and its forms for issues, where it has them.
#[test]
fn what_is_for_github_is_yaml() {
    let mut found = 0;
    for folder in [".github/workflows", ".github/ISSUE_TEMPLATE"] {
        let Ok(entries) = std::fs::read_dir(root().join(folder)) else { continue };
        for path in entries.map(|e| e.unwrap().path()).filter(|p| Path::new(p).extension().is_some_and(|e| e == "yml"))
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let value: Value = serde_yaml_ng::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            assert!(value.is_object(), "{}", path.display());
            found += 1;
        }
    }
    assert!(found >= 3, "{found} files");
}
