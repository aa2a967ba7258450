use std::path::Path;

use super::*;

fn cell(text: &str) -> String {
    text.replace('\n', " ").replace('|', "\\|")
}

/// An option in the page: its heading, the option with its value, and its help.
type Entry = (String, String, String);

/// Every option with the commands that take it, in the order of the help.
fn options_of_all() -> Vec<(Entry, Vec<&'static str>)> {
    let mut all: Vec<(Entry, Vec<&str>)> = Vec::new();
    for row in COMMANDS {
        let command = row.command();
        for arg in row.shown(&command) {
            let value = super::super::help::page::value(arg);
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            let heading = arg.get_help_heading().unwrap_or("Of single commands");
            let entry = (heading.to_owned(), format!("{}{value}", typed(arg)), help);
            match all.iter_mut().find(|(known, _)| *known == entry) {
                Some((_, commands)) => commands.push(row.name),
                None => all.push((entry, vec![row.name])),
            }
        }
    }
    all
}

fn list(commands: &[&str]) -> String {
    commands.iter().map(|c| format!("`{c}`")).collect::<Vec<_>>().join(" ")
}

/// `docs/commands.md`.
fn page() -> String {
    let mut text = "# Commands\n\n<!-- Made of the table in src/cli/commands.rs: UPDATE_GOLDEN=1 cargo test --lib commands -->\n\n| command | does | `--format` | monitor line |\n|---|---|---|---|\n".to_owned();
    for row in COMMANDS {
        let formats = Format::ALL.into_iter().filter(|f| row.formats.has(*f)).map(Format::name);
        let formats: Vec<&str> = formats.collect();
        let monitor = if row.monitor { "yes" } else { "" };
        let _ = writeln!(text, "| `{}` | {} | {} | {monitor} |", row.name, cell(row.about), formats.join(" "));
    }
    text.push_str("\nA monitor line may hold the options marked with `*`.\n");
    let options = options_of_all();
    let mut headings: Vec<&str> = Vec::new();
    for ((heading, ..), _) in &options {
        if !headings.contains(&heading.as_str()) {
            headings.push(heading);
        }
    }
    for heading in headings {
        let under: Vec<_> = options.iter().filter(|((h, ..), _)| h == heading).collect();
        let most = under.iter().map(|(_, commands)| commands).max_by_key(|c| c.len()).unwrap();
        let _ = write!(text, "\n## {heading}\n\nWith {}, where nothing else is named.\n\n", list(most));
        let _ = writeln!(text, "| option | | with |\n|---|---|---|");
        for ((_, option, help), commands) in under {
            let id = match option.split([' ', '[']).next().unwrap() {
                "--use" => "usage".to_owned(),
                "-n" => "count".to_owned(),
                option => option.trim_start_matches("--").replace('-', "_"),
            };
            let listed = MONITOR_OPTIONS.contains(&id.as_str());
            let mark = listed && commands.iter().any(|c| row(c).is_some_and(|r| r.monitor));
            let with = if commands == most { String::new() } else { list(commands) };
            let _ = writeln!(text, "| `{}`{} | {} | {with} |", cell(option), if mark { " *" } else { "" }, cell(help));
        }
    }
    text
}

#[test]
fn the_page_of_commands_is_made_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/commands.md");
    let page = page();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page, "UPDATE_GOLDEN=1 writes docs/commands.md");
}

#[test]
fn readme_lists_every_command() {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md")).unwrap();
    let table = readme.split_once("## Commands").unwrap().1.split_once("\n\n`tx-trace COMMAND").unwrap().0;
    let first = table.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let mut listed: Vec<&str> =
        first.flat_map(|cell| cell.split("` `")).filter_map(|c| c.split([' ', '`']).next()).collect();
    let mut commands: Vec<&str> = COMMANDS.iter().map(|row| row.name).collect();
    listed.sort_unstable();
    commands.sort_unstable();
    assert_eq!(listed, commands);
}

#[test]
fn the_table_is_sound() {
    command_line().debug_assert();
    for row in COMMANDS {
        let command = row.command();
        let format = command.get_opts().find(|a| a.get_id() == "format");
        assert_eq!(format.is_some(), row.formats != Formats::None, "{}", row.name);
        // A picture has one form.
        assert!(!row.monitor || format.is_some() || row.name == "timeline", "{}", row.name);
    }
    // Every id on the list is one that a command has.
    for id in MONITOR_OPTIONS {
        let has = |row: &Row| row.command().get_arguments().any(|a| a.get_id() == id);
        assert!(COMMANDS.iter().any(|row| row.monitor && has(row)), "{id}");
    }
}

#[test]
fn each_report_has_a_command_of_its_name() {
    for name in Name::ALL.into_iter().filter(|n| *n != Name::Use) {
        assert_eq!(row(name.name()).map(|row| row.reports), Some(&[name][..]), "{}", name.name());
    }
}
