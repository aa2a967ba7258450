//! A timeline in a terminal: a row for each track, a column for each period of time.

use std::collections::BTreeMap;
use std::io::{self, Write};

use super::rows;
use super::words::Words;
use crate::output::escape::columns;
use crate::output::line::wrap;
use crate::output::scale::Scale;
use crate::output::{Style, Styles, View};
use crate::timeline::{
    Doubt, Gap, Instant, Level, Mark, Pointed, Scene, Sink, Slice, State, Track, TrackId, TrackKind,
};

/// The most rows of tracks, of marks, and of lines that explain marks.
const MAX_TRACKS: usize = 256;
const MAX_MARK_ROWS: u32 = 4;
const MAX_SAID: usize = 12;
/// The most columns of the names, and the fewest of the picture.
const MAX_NAME: usize = 24;
const MIN_LANE: usize = 10;
/// A label needs so many columns, and one that is cut so many.
const MIN_LABEL: usize = 5;
const MIN_CUT: usize = 16;

/// How to draw.
#[derive(Debug, Clone, Default)]
pub struct Drawing {
    /// Columns of the whole picture.
    pub width: usize,
    /// ASCII alone.
    pub ascii: bool,
    /// Colours.
    pub styles: Styles,
    /// True where times count back from the end of the window, which is the newest event.
    pub back: bool,
}

/// What a column shows of a track, the most important first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Look {
    Runs(u8),
    Ready,
    Lock,
    Waits,
    Idle,
    Unknown,
    Nothing,
}

/// The time of each state in one column.
#[derive(Debug, Clone, Copy, Default)]
struct Share {
    runs: i64,
    ready: i64,
    lock: i64,
    waits: i64,
    idle: i64,
    unknown: i64,
}

impl Share {
    /// A column is so many ticks long.
    fn look(&self, length: i64) -> Look {
        if self.runs > 0 {
            let eighths = self.runs.saturating_mul(8).checked_div(length.max(1)).unwrap_or(8).clamp(1, 8);
            return Look::Runs(u8::try_from(eighths).unwrap_or(8));
        }
        let most = [
            (self.lock, Look::Lock),
            (self.ready, Look::Ready),
            (self.waits, Look::Waits),
            (self.idle, Look::Idle),
            (self.unknown, Look::Unknown),
        ];
        most.into_iter().filter(|(time, _)| *time > 0).max_by_key(|(time, _)| *time).map_or(Look::Nothing, |(_, l)| l)
    }
}

/// One track as it is drawn.
#[derive(Debug, Clone, Default)]
struct TrackRow {
    shares: Vec<Share>,
    /// First and last column of what is long enough, and its text.
    labels: Vec<(usize, usize, String)>,
    is_used: bool,
}

/// Draws a timeline as text.
pub struct Terminal<'v, W> {
    out: W,
    words: Words<'v>,
    drawing: Drawing,
    window: (i64, i64),
    row_width: usize,
    rows: Vec<TrackRow>,
    /// Columns with a mark of the application, and those of which something is not known.
    user: Vec<bool>,
    lost: Vec<bool>,
    clock: Vec<bool>,
}

impl<'v, W: Write> Terminal<'v, W> {
    /// Draws to `out`.
    pub fn new(out: W, view: View<'v>, drawing: Drawing) -> Self {
        Self {
            out,
            words: Words::new(view),
            drawing,
            window: (0, 0),
            row_width: 0,
            rows: Vec::new(),
            user: Vec::new(),
            lost: Vec::new(),
            clock: Vec::new(),
        }
    }

    /// Ticks of the window: at least one.
    fn length(&self) -> i128 {
        i128::from(self.window.1).saturating_sub(i128::from(self.window.0)).max(1)
    }

    /// The column of a moment.
    fn column(&self, ticks: i64) -> usize {
        let width = i128::try_from(self.row_width).unwrap_or(1);
        let at = i128::from(ticks).saturating_sub(i128::from(self.window.0)).saturating_mul(width);
        let column = at.checked_div(self.length()).unwrap_or(0);
        usize::try_from(column).unwrap_or(0).min(self.row_width.saturating_sub(1))
    }

    /// Ticks at which a column begins: those from which on [`Terminal::column`] gives it.
    fn begin_of(&self, column: usize) -> i64 {
        let width = i128::try_from(self.row_width.max(1)).unwrap_or(1);
        let at = i128::try_from(column).unwrap_or(0).saturating_mul(self.length());
        let at = at.saturating_add(width).saturating_sub(1).checked_div(width).unwrap_or(0);
        i64::try_from(at.saturating_add(i128::from(self.window.0))).unwrap_or(i64::MAX)
    }

    fn label(&self, scene: &Scene<'_>, slice: &Slice) -> Option<String> {
        match slice.state {
            State::Blocked(waiting) => Some(self.words.waiting(scene, &waiting)),
            State::Ready => Some("ready".to_owned()),
            _ => None,
        }
    }

    /// The glyph of a look.
    fn glyph(&self, look: Look) -> (char, Style) {
        let ascii = self.drawing.ascii;
        let pick = |plain, drawn| if ascii { plain } else { drawn };
        match look {
            Look::Runs(eighths) => {
                let drawn = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
                let at = usize::from(eighths.saturating_sub(1));
                let part = drawn.get(at).copied().unwrap_or('█');
                (pick(if eighths >= 8 { '#' } else { '+' }, part), Style::Running)
            }
            Look::Ready => (pick('=', '░'), Style::Isr),
            Look::Lock => (pick('x', '×'), Style::Block),
            Look::Waits => (pick('.', '·'), Style::Dim),
            Look::Idle => (pick('-', '─'), Style::Dim),
            Look::Unknown => ('?', Style::Dim),
            Look::Nothing => (' ', Style::Plain),
        }
    }

    /// One row as glyphs, with the labels written into it.
    fn glyphs_of(&self, row: &TrackRow) -> Vec<(char, Style)> {
        let length = |column: usize| self.begin_of(column.saturating_add(1)).saturating_sub(self.begin_of(column));
        let mut glyphs: Vec<(char, Style)> =
            row.shares.iter().enumerate().map(|(at, share)| self.glyph(share.look(length(at)))).collect();
        for (from, to, text) in &row.labels {
            // One glyph of the state stays at each side.
            let room = to.saturating_sub(*from).saturating_sub(1);
            let is_whole = text.chars().map(columns).sum::<usize>() <= room;
            let Some(text) = fit(text, room).filter(|_| is_whole || room >= MIN_CUT) else { continue };
            // Nothing that ran is overwritten.
            let last = from.saturating_add(text.chars().count());
            let under = glyphs.get(from.saturating_add(1)..=last).unwrap_or_default();
            if under.iter().any(|(_, style)| *style == Style::Running) {
                continue;
            }
            for (place, c) in glyphs.iter_mut().skip(from.saturating_add(1)).zip(text.chars()) {
                place.0 = c;
            }
        }
        for (glyph, lost) in glyphs.iter_mut().zip(&self.lost) {
            if *lost {
                *glyph = ('?', Style::Error);
            }
        }
        glyphs
    }

    /// Writes a row: its name, and glyphs.
    fn row(&mut self, name: &str, name_width: usize, glyphs: &[(char, Style)]) -> io::Result<()> {
        let fitted = fit(name, name_width).unwrap_or_default();
        let pad = name_width.saturating_sub(fitted.chars().map(columns).sum::<usize>());
        let mut line = format!("{fitted}{} ", " ".repeat(pad));
        let mut at = glyphs;
        while let Some((_, style)) = at.first() {
            let same = at.iter().take_while(|(_, s)| s == style).count();
            let (run, rest) = at.split_at(same);
            let text: String = run.iter().map(|(c, _)| *c).collect();
            line.push_str(&self.drawing.styles.text(*style, &text));
            at = rest;
        }
        writeln!(self.out, "{}", line.trim_end())
    }

    /// A row with a glyph in some columns; none where there is no such column.
    fn dots(
        &mut self,
        name: &str,
        name_width: usize,
        (glyph, style): (char, Style),
        of: impl Fn(&Self) -> &Vec<bool>,
    ) -> io::Result<()> {
        if !of(self).contains(&true) {
            return Ok(());
        }
        let glyphs: Vec<(char, Style)> =
            of(self).iter().map(|there| (if *there { glyph } else { ' ' }, style)).collect();
        self.row(name, name_width, &glyphs)
    }

    /// The axis: a line with moments.
    fn axis(&self, scene: &Scene<'_>) -> (String, Vec<(char, Style)>) {
        let clock = &scene.trace.clock;
        let most = u64::try_from(self.length()).unwrap_or(u64::MAX);
        let scale = Scale::of(clock, most, 5);
        let origin = if self.drawing.back { self.window.1 } else { 0 };
        let mut glyphs = vec![(' ', Style::Head); self.row_width];
        let longest = [self.window.0, self.window.1].map(|t| scale.text(t.saturating_sub(origin)).len());
        let step = longest.into_iter().max().unwrap_or(1).saturating_add(4).max(16);
        let mut column = 0usize;
        while column < self.row_width {
            let text = format!("|{}", scale.text(self.begin_of(column).saturating_sub(origin)));
            if column.saturating_add(text.len()) <= self.row_width {
                for (place, c) in glyphs.iter_mut().skip(column).zip(text.chars()) {
                    place.0 = c;
                }
            }
            column = column.saturating_add(step);
        }
        (scale.unit.to_owned(), glyphs)
    }

    /// The rows of marks: where each begins is the number of its line below.
    fn marks(&mut self, scene: &Scene<'_>, name_width: usize) -> io::Result<()> {
        let (numbers, marks): (Vec<usize>, Vec<Mark>) = Groups::of(scene.marks).drawn().into_iter().unzip();
        let rows = rows(&marks);
        let last = rows.iter().max().copied().unwrap_or(0).min(MAX_MARK_ROWS.saturating_sub(1));
        for row in 0..=last {
            let mut glyphs = vec![(' ', Style::Plain); self.row_width];
            for ((number, mark), at) in numbers.iter().zip(&marks).zip(&rows) {
                if *at != row {
                    continue;
                }
                let (from, to) = (self.column(mark.from), self.column(mark.to));
                let line = if self.drawing.ascii { '-' } else { '━' };
                for place in glyphs.iter_mut().take(to.saturating_add(1)).skip(from) {
                    *place = (line, Style::Error);
                }
                let label = if *number <= MAX_SAID { number.to_string() } else { "*".to_owned() };
                // At the right edge it comes before the end.
                let from = from.min(self.row_width.saturating_sub(label.len()));
                for (place, c) in glyphs.iter_mut().skip(from).zip(label.chars()) {
                    *place = (c, Style::Error);
                }
            }
            self.row(if row == 0 { "findings" } else { "" }, name_width, &glyphs)?;
        }
        Ok(())
    }

    fn said(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        let groups = Groups::of(scene.marks);
        for (number, group) in (1usize..).zip(groups.0.values()).take(MAX_SAID) {
            let Some(mark) = group.iter().find(|mark| is_finding(mark)).or_else(|| group.first()) else { continue };
            let text = format!("{number} {}{}", self.words.mark(scene, mark), events(group));
            let lines = wrap(&text, self.drawing.width, 3);
            for line in lines {
                writeln!(self.out, "{}", self.drawing.styles.text(Style::Error, &line))?;
            }
        }
        let more = groups.0.len().saturating_sub(MAX_SAID);
        if more > 0 { writeln!(self.out, "{more} more: inversions, explain") } else { Ok(()) }
    }

    fn legend(&mut self) -> io::Result<()> {
        let pairs = [
            (Look::Runs(8), "runs"),
            (Look::Runs(3), "in part"),
            (Look::Ready, "ready"),
            (Look::Lock, "waits for a lock"),
            (Look::Waits, "waits"),
        ];
        let parts: Vec<String> = pairs.iter().map(|(look, word)| format!("{} {word}", self.glyph(*look).0)).collect();
        let lost = if self.lost.contains(&true) { "  ? events are missing" } else { "" };
        let clock = if self.clock.contains(&true) { "  clock ?: it goes back, or is not plausible" } else { "" };
        for line in wrap(&format!("{}{lost}{clock}", parts.join("  ")), self.drawing.width, 0) {
            writeln!(self.out, "{}", self.drawing.styles.text(Style::Dim, &line))?;
        }
        Ok(())
    }

    /// The title of a row: name and priority.
    fn title(&self, scene: &Scene<'_>, track: &Track) -> String {
        let name = self.words.track(scene, track);
        track.priority.map_or_else(|| name.clone(), |priority| format!("{name} {priority}"))
    }
}

/// Marks by what has one number below: first the findings of `explain` in its order, each with all of its marks, then what the
/// events show alone.
struct Groups<'m>(BTreeMap<(bool, usize), Vec<&'m Mark>>);

impl<'m> Groups<'m> {
    fn of(marks: &'m [Mark]) -> Self {
        let mut groups: BTreeMap<(bool, usize), Vec<&Mark>> = BTreeMap::new();
        for (place, mark) in marks.iter().enumerate() {
            groups.entry(mark.finding.map_or((true, place), |finding| (false, finding))).or_default().push(mark);
        }
        Self(groups)
    }

    /// Those that are drawn, with their numbers: not the moments of what has a period.
    fn drawn(&self) -> Vec<(usize, Mark)> {
        let mut marks: Vec<(usize, Mark)> = Vec::new();
        for (number, group) in (1usize..).zip(self.0.values()) {
            let has_period = group.iter().any(|mark| !is_finding(mark));
            let drawn = group.iter().filter(|mark| !has_period || !is_finding(mark));
            marks.extend(drawn.map(|mark| (number, (*mark).clone())));
        }
        marks.sort_by_key(|(_, mark)| (matches!(mark.what, Pointed::Inversion { .. }), mark.from));
        marks
    }
}

const fn is_finding(mark: &Mark) -> bool {
    matches!(mark.what, Pointed::Finding(..))
}

/// The events of marks with one number.
fn events(group: &[&Mark]) -> String {
    if let Some(period) = group.iter().find(|mark| !is_finding(mark)) {
        return match (period.seq, period.to_seq) {
            (Some(from), Some(to)) => format!("; events {from} to {to}"),
            (Some(from), None) => format!("; since event {from}, and it goes on"),
            _ => String::new(),
        };
    }
    let seqs: Vec<String> = group.iter().filter_map(|mark| mark.seq).map(|seq| seq.to_string()).collect();
    match seqs.len() {
        0 => String::new(),
        1 => format!("; event {}", seqs.concat()),
        _ => format!("; events {}", seqs.join(", ")),
    }
}

/// A text cut to so many columns, with a mark where it was cut; `None` where not even that has room.
fn fit(text: &str, room: usize) -> Option<String> {
    let width = |text: &str| text.chars().map(columns).sum::<usize>();
    if width(text) <= room {
        return Some(text.to_owned());
    }
    let most = room.checked_sub(1)?;
    let mut cut = String::new();
    for c in text.chars() {
        if width(&cut).saturating_add(columns(c)) > most {
            break;
        }
        cut.push(c);
    }
    cut.push('~');
    Some(cut)
}

impl<W: Write> Sink for Terminal<'_, W> {
    fn begin(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        self.window = scene.window;
        let longest = scene.tracks.iter().map(|t| self.title(scene, t).chars().map(columns).sum::<usize>()).max();
        let most = MAX_NAME.min((self.drawing.width / 4).max(8));
        let name_width = longest.unwrap_or(0).clamp("findings".len(), most);
        self.row_width = self.drawing.width.saturating_sub(name_width).saturating_sub(1).max(MIN_LANE);
        let row = TrackRow { shares: vec![Share::default(); self.row_width], ..TrackRow::default() };
        self.rows = vec![row; scene.tracks.len().min(MAX_TRACKS)];
        self.user = vec![false; self.row_width];
        self.lost = vec![false; self.row_width];
        self.clock = vec![false; self.row_width];
        Ok(())
    }

    fn slice(&mut self, scene: &Scene<'_>, slice: &Slice) -> io::Result<()> {
        let (from, to) = (self.column(slice.from), self.column(slice.to));
        let label = self.label(scene, slice).filter(|_| to.saturating_sub(from) > MIN_LABEL);
        let kind = scene.track(slice.track).map(|track| track.kind);
        let times: Vec<i64> = (from..=to)
            .map(|column| {
                let end = if column >= to { slice.to } else { self.begin_of(column.saturating_add(1)) };
                end.min(slice.to).saturating_sub(self.begin_of(column).max(slice.from)).max(0)
            })
            .collect();
        let Some(row) = self.rows.get_mut(slice.track.index()) else { return Ok(()) };
        row.is_used = true;
        for (share, time) in row.shares.iter_mut().skip(from).zip(times) {
            // What is too short for a tick is seen all the same where it is the last.
            let time = if slice.from == slice.to { i64::from(!slice.is_over) } else { time };
            let place = match slice.state {
                State::Running(_) | State::Interrupt(_) => &mut share.runs,
                State::Interrupted(_) | State::Ready => &mut share.ready,
                State::Blocked(waiting) if waiting.owner.is_some() => &mut share.lock,
                State::Blocked(_) => &mut share.waits,
                State::Other if kind == Some(TrackKind::Unknown) => &mut share.unknown,
                State::Other if kind == Some(TrackKind::Idle) => &mut share.idle,
                State::Other => &mut share.runs,
            };
            *place = place.saturating_add(time);
        }
        row.labels.extend(label.map(|label| (from, to, label)));
        Ok(())
    }

    fn instant(&mut self, scene: &Scene<'_>, instant: &Instant<'_>) -> io::Result<()> {
        let is_mark = instant.event.def.and_then(|d| scene.catalogue.roles().get(d)).is_some_and(|role| role.is_mark);
        let column = self.column(instant.event.ticks);
        if let Some(user) = self.user.get_mut(column).filter(|_| is_mark || instant.event.def.is_none()) {
            *user = true;
        }
        if let Some(row) = self.rows.get_mut(instant.track.index()) {
            row.is_used = true;
        }
        Ok(())
    }

    fn level(&mut self, _: &Scene<'_>, _: &Level) -> io::Result<()> {
        Ok(())
    }

    fn gap(&mut self, _: &Scene<'_>, gap: &Gap) -> io::Result<()> {
        let (from, to) = (self.column(gap.from), self.column(gap.to));
        let places = if gap.doubt == Doubt::Lost { &mut self.lost } else { &mut self.clock };
        for place in places.iter_mut().take(to.saturating_add(1)).skip(from) {
            *place = true;
        }
        Ok(())
    }

    fn finish(&mut self, scene: &Scene<'_>) -> io::Result<()> {
        let name_width = self.drawing.width.saturating_sub(self.row_width).saturating_sub(1);
        let (unit, axis) = self.axis(scene);
        self.row(&unit, name_width, &axis)?;
        let rows = std::mem::take(&mut self.rows);
        for (id, row) in (0u32..).map(TrackId).zip(&rows).filter(|(_, row)| row.is_used) {
            let title = scene.track(id).map_or_else(String::new, |track| self.title(scene, track));
            let glyphs = self.glyphs_of(row);
            self.row(&title, name_width, &glyphs)?;
        }
        let marker = if self.drawing.ascii { '^' } else { '▲' };
        self.dots("user events", name_width, (marker, Style::Mark), |drawing| &drawing.user)?;
        self.dots("clock", name_width, ('?', Style::Error), |drawing| &drawing.clock)?;
        if !scene.marks.is_empty() {
            self.marks(scene, name_width)?;
        }
        let more = scene.tracks.len().saturating_sub(MAX_TRACKS);
        if more > 0 {
            writeln!(self.out, "{more} more tracks are not drawn: --thread")?;
        }
        self.legend()?;
        self.said(scene)?;
        self.out.flush()
    }
}
