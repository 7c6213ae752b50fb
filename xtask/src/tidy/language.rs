//! Rules about language (STYLE.md): the subject of a sentence is a noun of the field, and help is an imperative.

use super::{files, text, tidy};
use std::path::Path;

/// Pronouns that replace a noun of the field: the task, the vCPU, the thread, the client, the policy.
const PRONOUNS: &[&str] = &[
    "who",
    "whom",
    "whoever",
    "whomever",
    "somebody",
    "someone",
    "nobody",
    "everybody",
    "everyone",
    "anybody",
    "anyone",
];
/// Words with which help must not begin.
const NO_IMPERATIVE: &str = concat!("right ", "would be");
/// Extensions of files with prose. Outputs in `golden` are not checked: their sentences come from sources, which are
/// checked.
const WITH_PROSE: &[&str] = &["rs", "md", "toml", "py", "sh", "html"];
/// Files that may use the forbidden words, each with its reason.
const ALLOWED: &[(&str, &str)] =
    &[("CONTRIBUTING.md", "is about people"), ("xtask/src/tidy/language.rs", "states the rule")];

/// Returns the words of a text in lower case, each with its offset. Identifiers are split at `_` and before capital
/// letters, and escapes are skipped. Rust code needs no other parsing, because all its words are in comments, strings
/// or identifiers.
fn words(text: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut word: Option<(usize, String)> = None;
    let mut before = ' ';
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        let hump = letter.is_uppercase() && before.is_lowercase();
        if (hump || !letter.is_alphabetic())
            && let Some(whole) = word.take()
        {
            found.push(whole);
        }
        if letter.is_alphabetic() {
            word.get_or_insert((at, String::new())).1.extend(letter.to_lowercase());
        }
        let escapes = letter == '\\' && text[at + 1..].starts_with(['n', 't', 'r', '\\']);
        before = if escapes { letters.next().map_or(' ', |_| ' ') } else { letter };
    }
    found.extend(word);
    found
}

/// Returns the forbidden words of a text, each with its line. A phrase of two words may span two lines.
fn findings(text: &str) -> Vec<(usize, &'static str)> {
    let words = words(text);
    let pronouns = words.iter().filter_map(|(at, word)| {
        let pronoun = PRONOUNS.iter().find(|pronoun| *pronoun == word)?;
        Some((*at, *pronoun))
    });
    let phrases = words.windows(2).filter(|pair| is_no_one(text, pair)).map(|pair| (pair[0].0, "no one"));
    let help = text.match_indices(NO_IMPERATIVE).map(|(at, _)| (at, NO_IMPERATIVE));
    let mut found: Vec<(usize, &str)> = pronouns.chain(phrases).chain(help).collect();
    found.sort_unstable();
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    found.into_iter().map(|(at, words)| (line(at), words)).collect()
}

/// Returns whether two adjacent words are the pronoun "no one". "No one-way street" is not the pronoun.
fn is_no_one(text: &str, pair: &[(usize, String)]) -> bool {
    let [(no_at, no), (one_at, one)] = pair else { return false };
    let between = |c: char| c.is_whitespace() || "/!*_#|\\".contains(c);
    no == "no"
        && one == "one"
        && text[no_at + no.len()..*one_at].chars().all(between)
        && !text[one_at + one.len()..].starts_with('-')
}

#[test]
fn the_subject_is_a_noun_and_help_an_imperative() {
    let mut untidy = Vec::new();
    for path in files() {
        let has_prose = path.extension().is_some_and(|found| WITH_PROSE.iter().any(|extension| found == *extension));
        if !has_prose || path.starts_with("golden") || ALLOWED.iter().any(|(allowed, _)| path == Path::new(allowed)) {
            continue;
        }
        let found = findings(&text(&path));
        untidy.extend(found.iter().map(|(line, words)| format!("{}:{line}: {words}", path.display())));
    }
    tidy(&untidy);
}

#[test]
fn every_pronoun_is_found_wherever_a_word_can_be() {
    for pronoun in PRONOUNS {
        assert_eq!(findings(&format!("a\nb {pronoun}.")), [(2, *pronoun)]);
    }
    let words = |text: &str| findings(text).into_iter().map(|(_, words)| words).collect::<Vec<_>>();
    assert_eq!(words("// Who's there?"), ["who"]);
    assert_eq!(words("fn nobody_runs() { let x = leavesEveryoneBehind; WHOEVER }"), ["nobody", "everyone", "whoever"]);
    assert_eq!(words("println!(\"a task\\nwho waits\\tanyone\");"), ["who", "anyone"]);
    assert_eq!(words("/// There is no\n/// one. fn no_one_waits()"), ["no one", "no one"]);
    assert_eq!(words("whose whole; a no one-way street; no. One"), [""; 0]);
}

#[test]
fn help_that_is_no_imperative_is_found() {
    let text = format!("let help = \"{NO_IMPERATIVE} a slice\";\n// {NO_IMPERATIVE}");
    assert_eq!(findings(&text), [(1, NO_IMPERATIVE), (2, NO_IMPERATIVE)]);
    assert_eq!(findings("help: use a slice up to the period"), []);
}
