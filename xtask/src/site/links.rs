//! Links of a page of the book: [`rewrite`] replaces their targets.

use std::path::{Component, Path, PathBuf};

/// Returns the page with each target of a link, `[text](target)`, replaced by `replaced(target)`. Code is not changed.
pub(super) fn rewrite(page: &str, mut replaced: impl FnMut(&str) -> String) -> String {
    let mut written = String::with_capacity(page.len());
    let mut in_code = false;
    for line in page.split_inclusive('\n') {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        if in_code || is_fence {
            written.push_str(line);
            continue;
        }
        for (at, part) in line.split('`').enumerate() {
            if at > 0 {
                written.push('`');
            }
            // Every second part is a code span.
            if at % 2 == 0 { rewrite_prose(part, &mut written, &mut replaced) } else { written.push_str(part) }
        }
    }
    written
}

fn rewrite_prose(mut prose: &str, written: &mut String, replaced: &mut impl FnMut(&str) -> String) {
    while let Some((before, after)) = prose.split_once("](") {
        let Some((target, rest)) = after.split_once(')') else { break };
        written.push_str(before);
        written.push_str("](");
        written.push_str(&replaced(target.trim_matches(['<', '>'])));
        written.push(')');
        prose = rest;
    }
    written.push_str(prose);
}

/// Returns whether a link leads to another host.
pub(super) fn is_external(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:") || target.starts_with("data:")
}

/// Returns the path of `target`, a link of the page `page`, without `..`.
pub(super) fn resolved(page: &Path, target: &str) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in page.parent().unwrap_or(Path::new("")).join(target).components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the link from the page `page` to the file `file`, both relative to one folder.
pub(super) fn relative(page: &Path, file: &Path) -> String {
    let from: Vec<Component<'_>> = page.parent().map(|folder| folder.components().collect()).unwrap_or_default();
    let to: Vec<Component<'_>> = file.components().collect();
    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = from[shared..].iter().map(|_| "..".to_string());
    let down = to[shared..].iter().map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_replaced_outside_code_only() {
        let page = "[a](x.md) `[b](x.md)` [`c`](x.md#y)\n```\n[d](x.md)\n```\n![e](x.md) (f) [g\nh](x.md)";
        let wanted = "[a](X) `[b](x.md)` [`c`](X#y)\n```\n[d](x.md)\n```\n![e](X) (f) [g\nh](X)";
        assert_eq!(rewrite(page, |target| target.replace("x.md", "X")), wanted);
    }

    #[test]
    fn a_link_leads_from_its_page_to_the_file() {
        let between = |page: &str, file: &str| relative(Path::new(page), Path::new(file));
        assert_eq!(between("docs/policies/edf.md", "docs/report.md"), "../report.md");
        assert_eq!(between("index.md", "docs/report.md"), "docs/report.md");
        assert_eq!(between("docs/a.md", "docs/b.md"), "b.md");
        assert_eq!(resolved(Path::new("docs/policies/edf.md"), "../../README.md"), Path::new("README.md"));
        assert!(is_external("https://example.org/a") && !is_external("a.md#b"));
    }
}
