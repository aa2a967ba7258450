//! Pages of docs/ for a terminal: paragraphs, lists and tables are wrapped to its width.

use super::TOPICS;
use super::page::{OPTIONS, Page};

/// The fewest columns that the last cell of a row has. A table with less is written as records.
const LAST: usize = 24;
/// Where the cells of a record begin, and the widest heading that is beside its cell.
const RECORD: usize = 6;
const HEADING: usize = 16;

/// A page of docs/ as wide as the terminal.
pub(super) fn markdown(text: &str) -> String {
    render(text, Page::new())
}

fn render(text: &str, page: Page) -> String {
    let mut lines = Lines { page, paragraph: String::new(), rows: Vec::new() };
    let mut is_code = false;
    for line in without_links(text).lines() {
        if line.starts_with("```") {
            lines.end();
            is_code ^= true;
        } else if is_code {
            lines.page.line(&format!("    {line}"));
        } else {
            lines.add(line);
        }
    }
    lines.end();
    lines.page.text
}

/// The page, and what is not on it yet.
struct Lines {
    page: Page,
    paragraph: String,
    rows: Vec<Vec<String>>,
}

impl Lines {
    /// Adds a line that is not in a block of code.
    fn add(&mut self, line: &str) {
        if line.starts_with('|') {
            // The line below the head has no words.
            if !line.trim_matches(['|', '-', ':', ' ']).is_empty() {
                self.rows.push(cells(line));
            }
            return;
        }
        let is_heading = line.starts_with('#');
        let is_indented = line.starts_with("    ");
        if line.is_empty() || is_heading || is_indented || item(line).is_some() || !self.rows.is_empty() {
            self.end();
        }
        if line.is_empty() || is_indented {
            self.page.line(line);
        } else if is_heading {
            self.page.text("", 0, &plain(line));
        } else if !line.starts_with("<!--") {
            self.paragraph.push_str(line);
            self.paragraph.push(' ');
        }
    }

    /// Ends a paragraph or a table.
    fn end(&mut self) {
        let paragraph = std::mem::take(&mut self.paragraph);
        if !paragraph.is_empty() {
            let text = plain(&paragraph);
            match item(&text) {
                Some((mark, text)) => self.page.text(mark, mark.len(), text),
                None => self.page.text("", 0, &text),
            }
        }
        table(&mut self.page, &std::mem::take(&mut self.rows));
    }
}

/// The cells of a row. An escaped bar is a character of its cell.
fn cells(line: &str) -> Vec<String> {
    let line = line.trim().strip_prefix('|').unwrap_or(line).replace("\\|", "\0");
    let line = line.strip_suffix('|').unwrap_or(&line);
    line.split('|').map(|cell| plain(cell.trim()).replace('\0', "|")).collect()
}

/// Text without the marks of bold; code keeps its stars.
fn plain(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts: Vec<String> =
        parts.map(|(at, part)| if at % 2 == 0 { part.replace("**", "") } else { part.to_owned() }).collect();
    parts.join("`")
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// A table: what is in the last column is explained by the others, each as wide as its texts.
fn table(page: &mut Page, rows: &[Vec<String>]) {
    let width = |at: usize| rows.iter().filter_map(|row| row.get(at)).map(|cell| columns(cell)).max();
    let between = rows.iter().map(Vec::len).max().unwrap_or(0).saturating_sub(1);
    let widths: Vec<usize> = (1..between).filter_map(width).map(|width| width.saturating_add(2)).collect();
    let column = widths.iter().fold(OPTIONS, |column, width| column.saturating_add(*width));
    if column.saturating_add(LAST) > page.width {
        return records(page, rows);
    }
    for row in rows {
        let [name, middle @ .., last] = row.as_slice() else { continue };
        let mut head = format!("  {name}");
        // A name that is too long for its column is alone in its lines.
        if columns(&head) >= OPTIONS {
            page.text("  ", 2, name);
            head.clear();
        }
        head = format!("{head:OPTIONS$}");
        for (cell, width) in middle.iter().zip(&widths) {
            head.push_str(&format!("{cell:width$}"));
        }
        page.text(&head, column, last);
    }
}

/// A table that is too wide: below each name its cells, each after its heading.
fn records(page: &mut Page, rows: &[Vec<String>]) {
    let Some(([_, headings @ ..], rows)) = rows.split_first().map(|(head, rows)| (head.as_slice(), rows)) else {
        return;
    };
    let widest = headings.iter().map(|heading| columns(heading)).filter(|width| *width <= HEADING).max();
    let column = widest.unwrap_or(0).saturating_add(RECORD).saturating_add(2);
    for row in rows {
        let [name, cells @ ..] = row.as_slice() else { continue };
        page.text("  ", 2, name);
        for (heading, cell) in headings.iter().zip(cells).filter(|(_, cell)| !cell.is_empty()) {
            let head = format!("{:RECORD$}{heading}", "");
            if columns(heading) <= HEADING {
                page.text(&head, column, cell);
            } else {
                page.text(&" ".repeat(RECORD), RECORD, heading);
                page.text("", column, cell);
            }
        }
    }
}

/// Links become their words, or the topic that has the page.
fn without_links(text: &str) -> String {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, behind)) = rest.split_once("](") {
        let (before, label) = before.rsplit_once('[').unwrap_or(("", before));
        let (target, behind) = behind.split_once(')').unwrap_or((behind, ""));
        plain.push_str(before);
        plain.push_str(&words(label, target));
        rest = behind;
    }
    plain.push_str(rest);
    plain
}

/// What a link is called where nothing can be followed.
fn words(label: &str, target: &str) -> String {
    let page = target.split('#').next().unwrap_or_default();
    let name = label.trim_end_matches(".md").rsplit('/').next().unwrap_or_default();
    let stem = page.trim_end_matches(".md").rsplit('/').next().unwrap_or_default();
    let topic = match stem {
        "explain" => "findings",
        "threads" => "faults",
        "inputs" => "sources",
        stem => stem,
    };
    match TOPICS.iter().find(|known| known.name == topic) {
        Some(topic) if label.ends_with(".md") => format!("`tx-trace help {}`", topic.name),
        Some(topic) => format!("{name} (`tx-trace help {}`)", topic.name),
        None if label.ends_with(".md") => format!("the page {name} of the documentation"),
        None => name.to_owned(),
    }
}

/// The mark of an item of a list, and its text: `* ` or `1. `.
fn item(line: &str) -> Option<(&str, &str)> {
    let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = digits.strip_prefix(". ").filter(|_| digits.len() < line.len()).or_else(|| line.strip_prefix("* "))?;
    Some((line.get(..line.len().saturating_sub(rest.len()))?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page_of(text: &str, width: usize) -> String {
        render(text, Page { text: String::new(), width })
    }

    #[test]
    fn pages_of_docs_keep_their_lists_and_columns() {
        let text = "A text\nin lines.\n\n1. One\n   more.\n2. Two.\n\n| name | in tables | is |\n|---|---|---|\n| `runs` | runs | how often |\n| `the_longest_name_of_a_column` | long | a name |\n";
        let page = "\
A text in lines.

1. One more.
2. Two.

  name                    in tables  is
  `runs`                  runs       how often
  `the_longest_name_of_a_column`
                          long       a name
";
        assert_eq!(page_of(text, 80), page);
    }

    #[test]
    fn marks_of_markdown_are_not_shown() {
        let text = "<!-- rates -->\nThis **and** that, `**` is code.\n**Bold** goes on.\n\n| a | b |\n|---|---|\n| `\\|COMMAND` | **b** |\n<!-- end -->\n";
        let page = "\
This and that, `**` is code. Bold goes on.

  a                       b
  `|COMMAND`              b
";
        assert_eq!(page_of(text, 80), page);
    }

    #[test]
    fn a_table_that_is_too_wide_becomes_records() {
        let text = "| code | claims | from |\n|---|---|---|\n| `hang` | a default handler runs, which is an endless loop; or not | the registers |\n| `x` | | nothing |\n";
        let page = "  `hang`
      claims  a default handler runs, which is an endless loop; or
              not
      from    the registers
  `x`
      from    nothing
";
        assert_eq!(page_of(text, 66), page);
    }

    #[test]
    fn every_page_of_docs_fits_a_terminal() {
        for topic in TOPICS.iter().filter(|topic| topic.is_page()) {
            let page = page_of(topic.text, 80);
            // What is preformatted is on the page as in the text.
            let preformatted = |line: &&str| topic.text.lines().any(|of| of.trim() == line.trim());
            let long: Vec<&str> =
                page.lines().filter(|line| columns(line) > 80).filter(|line| !preformatted(line)).collect();
            assert!(long.is_empty(), "{}: {long:?}", topic.name);
            assert!(!page.contains("<!--") && !page.contains("\\|"), "{}", topic.name);
        }
    }
}
