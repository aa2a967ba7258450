//! `completions` and `man`: what shells and `man` read, made of the table of commands.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;

use super::commands::{COMMANDS, completed, documented, row};
use super::diagnostics::Diagnostics;
use super::help::page;
use super::request::{Output, Request, Task};
use super::sink::Sink;
use super::whole_file::WholeFile;
use super::{Outcome, options};
use crate::code::Code;
use crate::error::{Error, reason};
use crate::near::{did_you_mean, nearest};

/// The name of the program.
const PROGRAM: &str = "tx-trace";

/// A text to print.
struct Text(Vec<u8>);

impl Task for Text {
    fn run(self: Box<Self>, output: &Output, _: &Diagnostics) -> Result<Outcome, Error> {
        let mut sink = Sink::open(output, None)?;
        sink.write_all(&self.0)?;
        sink.finish()?;
        Ok(Outcome::Done)
    }
}

/// The completion of a shell.
pub(super) fn completions(typed: &options::Completions) -> Request {
    Request::new(Text(completion(typed.shell)), Output::default())
}

/// A manual page, or all of them.
pub(super) fn man(typed: options::Man) -> Result<Request, Error> {
    if let Some(dir) = typed.dir {
        return Ok(Request::new(Pages(dir), Output::default()));
    }
    let command = match &typed.word {
        None => documented(),
        Some(name) => command(name).ok_or_else(|| unknown(name))?,
    };
    let mut text = Vec::new();
    manual_page(&command, &mut text)?;
    if let Some(dir) = typed.output.as_ref().filter(|path| path.is_dir()) {
        let why = format!("-o {}: a directory, and this is one page", dir.display());
        return Err(Error::usage(Code::Usage, why).hint(format!("man --dir {} writes all pages", dir.display())));
    }
    let path = typed.output.filter(|path| path.as_os_str() != "-");
    Ok(Request::new(Text(text), Output { path, ..Output::default() }))
}

fn completion(shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut completed(), PROGRAM, &mut text);
    if shell == Shell::Bash {
        // clap_complete 4.6 writes the dash of the program's name in two ways, so that no option would be completed.
        text = String::from_utf8_lossy(&text).replace("tx__subcmd__trace", "tx__trace").into_bytes();
    }
    text
}

/// A command under the name of its page.
fn command(name: &str) -> Option<Command> {
    let row = row(name)?;
    Some(row.documented().display_name(format!("{PROGRAM}-{name}")).bin_name(format!("{PROGRAM} {name}")))
}

fn unknown(name: &str) -> Error {
    let error = Error::usage(Code::Usage, format!("`{name}` is not a command"));
    let near = nearest(name, COMMANDS.iter().map(|row| row.name));
    if near.is_empty() {
        return error.hint("`tx-trace help` lists the commands");
    }
    error.hint(did_you_mean(&near, ""))
}

/// All pages, written to a directory.
struct Pages(PathBuf);

impl Task for Pages {
    fn run(self: Box<Self>, _: &Output, _: &Diagnostics) -> Result<Outcome, Error> {
        let Self(dir) = *self;
        let commands = COMMANDS.iter().filter_map(|row| command(row.name));
        let fail = |path: &Path, e: &io::Error| {
            Error::failed(Code::Output, format!("{}: {}", path.display(), reason(e)), "--dir takes a directory")
        };
        std::fs::create_dir_all(&dir).map_err(|e| fail(&dir, &e))?;
        for command in std::iter::once(documented()).chain(commands) {
            let name = command.get_display_name().unwrap_or(PROGRAM);
            let path = dir.join(format!("{name}.1"));
            write_page(&command, &path).map_err(|e| fail(&path, &e))?;
        }
        Ok(Outcome::Done)
    }
}

fn write_page(command: &Command, path: &Path) -> io::Result<()> {
    let mut file = WholeFile::create(path)?;
    manual_page(command, &mut file)?;
    file.finish()
}

/// The page in the language of `man`. It names no date, so that a build can be repeated.
fn manual_page(command: &Command, out: &mut dyn Write) -> io::Result<()> {
    let man = Man::new(command.clone()).manual("tx-trace").source(concat!("tx-trace ", env!("CARGO_PKG_VERSION")));
    man.render_title(out)?;
    man.render_name_section(out)?;
    let mut synopsis = Vec::new();
    man.render_synopsis_section(&mut synopsis)?;
    // clap_mangen writes a blank after an option that has no long name.
    out.write_all(String::from_utf8_lossy(&synopsis).replace(" \\fR]", "\\fR]").as_bytes())?;
    man.render_description_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    } else {
        let mut options = Vec::new();
        man.render_options_section(&mut options)?;
        // There is one help, not two.
        let text = String::from_utf8_lossy(&options).replace(" (see a summary with \\*(Aq\\-h\\*(Aq)", "");
        out.write_all(text.as_bytes())?;
    }
    let name = command.get_name();
    if let Some(example) = page::example(name) {
        writeln!(out, ".SH EXAMPLE\n.nf")?;
        for line in example.lines() {
            writeln!(out, "{}", literal(line))?;
        }
        writeln!(out, ".fi")?;
    }
    writeln!(out, ".SH EXIT STATUS\n0 done, 1 not found, 2 error.")?;
    writeln!(out, ".SH SEE ALSO\n{}", literal("tx-trace help TOPIC: sources, endpoints, filters, events, reports."))
}

/// Text as it is: no character of it is one of roff's own.
fn literal(line: &str) -> String {
    let mut text = "\\&".to_owned();
    for c in line.chars() {
        match c {
            '\\' => text.push_str("\\e"),
            '-' => text.push_str("\\-"),
            '\'' => text.push_str("\\(aq"),
            c if c.is_ascii() => text.push(c),
            c => text.push_str(&format!("\\[u{:04X}]", u32::from(c))),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::commands::typed;

    /// Every command with every option that it takes, as it is typed.
    fn everything() -> Vec<(&'static str, Vec<String>)> {
        let options = |row: &crate::cli::commands::Row| {
            let command = row.command();
            row.shown(&command).map(typed).collect()
        };
        COMMANDS.iter().map(|row| (row.name, options(row))).collect()
    }

    #[test]
    fn every_command_and_option_has_its_place_in_a_manual_page() {
        let plain = |page: &[u8]| String::from_utf8(page.to_vec()).unwrap().replace("\\-", "-");
        let mut main = Vec::new();
        manual_page(&documented(), &mut main).unwrap();
        let main = plain(&main);
        for (name, options) in everything() {
            assert!(main.contains(&format!("tx-trace-{name}(1)")), "{name}: {main}");
            let mut page = Vec::new();
            manual_page(&command(name).unwrap(), &mut page).unwrap();
            let page = plain(&page);
            assert!(page.contains(&format!("tx-trace {name}")), "{page}");
            assert!(!page.contains(" \\fR]") && !page.contains("see a summary"), "{page}");
            for option in options {
                assert!(page.contains(&option), "{name} {option}: {page}");
            }
            let refused = row(name).unwrap().command();
            let shown: Vec<String> = row(name).unwrap().shown(&refused).map(typed).collect();
            for arg in refused.get_opts().map(typed).filter(|arg| !shown.contains(arg) && arg.len() > 4) {
                assert!(!page.contains(&format!("{arg}\\fR")), "{name} refuses {arg}");
            }
        }
    }

    #[test]
    fn every_command_and_option_is_completed() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell, Shell::Elvish] {
            let text = String::from_utf8(completion(shell)).unwrap();
            for (name, options) in everything() {
                assert!(text.contains(name), "{shell}: {name}");
                for option in options {
                    // Fish has them without their dashes.
                    let bare = option.trim_start_matches('-');
                    let fish = [format!("-l {bare}"), format!("-s {bare}")].iter().any(|form| text.contains(form));
                    assert!(text.contains(&option) || shell == Shell::Fish && fish, "{shell}: {name} {option}");
                }
            }
        }
    }

    #[test]
    fn usual_words_are_completed() {
        let text = String::from_utf8(completion(Shell::Bash)).unwrap();
        for words in [
            "perfetto chrome html trx",
            "proven likely hint",
            "thread isr init",
            "pause resume mark",
            "findings",
            "tx_mutex_get",
            "time stamp priority threshold",
            "profile stats services",
        ] {
            assert!(text.contains(words), "{words}");
        }
    }

    #[test]
    fn the_documented_commands_are_sound() {
        completed().debug_assert();
        documented().debug_assert();
    }
}
