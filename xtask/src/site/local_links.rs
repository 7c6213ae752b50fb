//! Links of the built site: every link within the site has its target, and nothing is loaded from another host.

use super::links::{is_external, resolved};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Pages whose hashes are not checked: the hash of the playground is its state, and a page of some claims also names the
/// other claims.
const UNCHECKED: [&str; 2] = ["playground.html", "papers/claims.html"];

/// Returns the values of an attribute of all tags.
fn values<'t>(html: &'t str, attribute: &str) -> Vec<&'t str> {
    let start = format!(" {attribute}=\"");
    let tags = html.split('<').skip(1).filter_map(|tag| tag.split_once('>').map(|(tag, _)| tag));
    let of_tag = |tag: &'t str| tag.split_once(start.as_str()).and_then(|(_, value)| value.split_once('"'));
    tags.filter_map(of_tag).map(|(value, _)| value).collect()
}

/// Returns the links and the loaded files of the pages without a target, and the files loaded from other hosts. `files`
/// are all files of the site, with the contents of the pages.
pub(super) fn dead(files: &[(PathBuf, Option<String>)]) -> Vec<String> {
    let anchors: BTreeMap<&Path, Option<BTreeSet<&str>>> = files
        .iter()
        .map(|(path, text)| (path.as_path(), text.as_deref().map(|html| values(html, "id").into_iter().collect())))
        .collect();
    let mut found = Vec::new();
    for (page, text) in files {
        let Some(html) = text else { continue };
        for source in values(html, "src") {
            if is_external(source) && !source.starts_with("data:") {
                found.push(format!("{}: loads {source}", page.display()));
            }
        }
        for link in values(html, "href").into_iter().chain(values(html, "src")) {
            if !is_external(link) && !leads_somewhere(page, link, &anchors) {
                found.push(format!("{}: ({link}) leads nowhere", page.display()));
            }
        }
    }
    found
}

fn leads_somewhere(page: &Path, link: &str, anchors: &BTreeMap<&Path, Option<BTreeSet<&str>>>) -> bool {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = if file.is_empty() { page.to_path_buf() } else { resolved(page, file) };
    let Some(present) = anchors.get(target.as_path()) else { return false };
    let is_unchecked = UNCHECKED.iter().any(|page| target == Path::new(page));
    anchor.is_empty() || is_unchecked || present.as_ref().is_none_or(|present| present.contains(anchor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_links_and_other_hosts_are_found() {
        let page = "<a href=\"b.html#here\"><a class=\"x\" href=\"b.html#there\"><img src=\"gone.svg\"><a href=\"#top\" id=\"top\">\
            <script src=\"https://example.org/x.js\"></script> text href=\"no.html\" <a href=\"https://example.org\">";
        let other = "<h1 id=\"here\">";
        let files = [("a.html", Some(page)), ("b.html", Some(other)), ("c.js", None)];
        let files = files.map(|(path, text)| (PathBuf::from(path), text.map(String::from)));
        let found = dead(&files);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].contains("loads https://example.org/x.js"));
        assert!(found[1].contains("(b.html#there)") && found[2].contains("(gone.svg)"));
    }
}
