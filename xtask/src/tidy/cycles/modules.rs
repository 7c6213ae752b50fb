//! [`Modules`]: the modules of a crate with their definitions, imports and mentioned paths, and the resolution of
//! paths.

use super::graph::Graph;
use crate::tidy::sources::{is_cfg_test, parse};
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::path::{Path, PathBuf};

/// Keywords before the name of a definition.
const ITEMS: &[&str] = &["fn", "struct", "enum", "union", "trait", "const", "static", "type"];
/// Maximum length of a chain of imports. A name at the end of a longer chain, which may be endless, is not resolved.
const DEPTH_MAX: usize = 16;

/// Segments of a path, such as `crate::a::B`.
type Names = Vec<String>;

/// A name that a `use` imports.
#[derive(Debug)]
struct Import {
    name: String,
    leads_to: Names,
    /// Whether the import is a re-export, which is a declaration and not a use.
    is_public: bool,
}

#[derive(Debug, Default)]
struct Module {
    file: PathBuf,
    parent: Option<usize>,
    children: BTreeMap<String, usize>,
    items: BTreeSet<String>,
    imports: Vec<Import>,
    /// Modules and enums whose names are all imported (`use a::*`).
    globs: Vec<Names>,
    /// Paths that the code mentions.
    mentions: BTreeSet<Names>,
}

/// Target of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Target {
    Module(usize),
    /// An item that the module with this number defines.
    Item(usize),
}

/// The modules of a crate without its test modules; the first module is the root.
#[derive(Debug)]
pub(super) struct Modules(Vec<Module>);

impl Modules {
    /// Reads a crate from its root file. `text_of` returns the content of a file, if the file exists.
    pub(super) fn read(root: &Path, text_of: &dyn Fn(&Path) -> Option<String>) -> Modules {
        let mut modules = Modules(Vec::new());
        let folder = root.parent().unwrap_or(Path::new("")).to_path_buf();
        let text = text_of(root).unwrap_or_default();
        modules.module((None, root.to_path_buf(), &folder), parse(&text), text_of);
        modules
    }

    /// Returns the uses between files.
    pub(super) fn graph(&self) -> Graph {
        let mut graph = Graph::default();
        for (number, module) in self.0.iter().enumerate() {
            let private = module.imports.iter().filter(|import| !import.is_public).map(|import| &import.leads_to);
            for names in private.chain(&module.mentions) {
                if let Some(Target::Item(definer)) = self.resolve(number, names, 0) {
                    let file = |module: &Module| module.file.display().to_string();
                    let last = names.last().map_or("", String::as_str);
                    graph.add(&file(module), &file(&self.0[definer]), last);
                }
            }
        }
        graph
    }

    /// Adds a module with its submodules, and returns its number. `folder` contains the files of the submodules.
    fn module(
        &mut self,
        (parent, file, folder): (Option<usize>, PathBuf, &Path),
        tokens: TokenStream,
        text_of: &dyn Fn(&Path) -> Option<String>,
    ) -> usize {
        let number = self.0.len();
        self.0.push(Module { file: file.clone(), parent, ..Module::default() });
        for (is_public, item) in items(tokens).into_iter().map(without_visibility) {
            match item.first() {
                Some(token) if is_word(token, "mod") => {
                    let name = item.get(1).map(ToString::to_string).unwrap_or_default();
                    let below = folder.join(&name);
                    let written = match item.get(2) {
                        Some(TokenTree::Group(body)) => Some((file.clone(), body.stream())),
                        _ => [folder.join(format!("{name}.rs")), below.join("mod.rs")]
                            .into_iter()
                            .find_map(|file| text_of(&file).map(|text| (file, parse(&text)))),
                    };
                    if let Some((file, body)) = written {
                        let child = self.module((Some(number), file, &below), body, text_of);
                        self.0[number].children.insert(name, child);
                    }
                }
                Some(token) if is_word(token, "use") => {
                    self.0[number].import(&[], &mut item.into_iter().skip(1).peekable(), is_public);
                }
                _ => self.0[number].enter(item),
            }
        }
        number
    }

    /// Returns the target of a path in `module`; `None` if the target is outside this crate.
    fn resolve(&self, module: usize, names: &[String], depth: usize) -> Option<Target> {
        let (first, rest) = names.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Target::Module(0),
            "self" => Target::Module(module),
            "super" => Target::Module(self.0[module].parent?),
            name => self.find(module, name, depth)?,
        };
        for name in rest {
            match at {
                Target::Module(inner) if name == "super" => at = Target::Module(self.0[inner].parent?),
                Target::Module(inner) => at = self.find(inner, name, depth)?,
                // The rest of the path names a variant or an associated item.
                Target::Item(_) => break,
            }
        }
        Some(at)
    }

    /// Returns the target of a name in a module.
    fn find(&self, module: usize, name: &str, depth: usize) -> Option<Target> {
        if depth > DEPTH_MAX {
            return None;
        }
        let Module { children, items, imports, globs, .. } = &self.0[module];
        if let Some(child) = children.get(name) {
            return Some(Target::Module(*child));
        }
        if items.contains(name) {
            return Some(Target::Item(module));
        }
        if let Some(import) = imports.iter().find(|import| import.name == name) {
            return self.resolve(module, &import.leads_to, depth + 1);
        }
        globs.iter().find_map(|glob| match self.resolve(module, glob, depth + 1)? {
            Target::Module(inner) if inner != module => self.find(inner, name, depth + 1),
            _ => None,
        })
    }
}

impl Module {
    /// Adds an item that is neither a module nor a `use`.
    fn enter(&mut self, item: Vec<TokenTree>) {
        let is_keyword = |token: &TokenTree| ITEMS.iter().any(|word| is_word(token, word));
        let named = item.windows(2).find(|pair| is_keyword(&pair[0]) && !is_keyword(&pair[1]));
        if let Some([_, TokenTree::Ident(name)]) = named
            && !is_word(&item[0], "impl")
        {
            self.items.insert(name.to_string());
        }
        self.mention(&mut item.into_iter().peekable());
    }

    /// Adds the imports after `use`, up to a comma or the end.
    fn import(&mut self, before: &[String], tokens: &mut Peekable<impl Iterator<Item = TokenTree>>, is_public: bool) {
        let mut names = before.to_vec();
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Ident(word) if word == "as" => {
                    let name = tokens.next().map(|token| token.to_string()).unwrap_or_default();
                    self.imports.push(Import { name, leads_to: std::mem::take(&mut names), is_public });
                }
                TokenTree::Ident(name) => names.push(name.to_string()),
                TokenTree::Group(group) => {
                    let mut inner = group.stream().into_iter().peekable();
                    while inner.peek().is_some() {
                        self.import(&names, &mut inner, is_public);
                    }
                    names.clear();
                }
                TokenTree::Punct(punct) if punct.as_char() == '*' => self.globs.push(std::mem::take(&mut names)),
                TokenTree::Punct(punct) if matches!(punct.as_char(), ',' | ';') => break,
                TokenTree::Punct(_) | TokenTree::Literal(_) => {}
            }
        }
        if names.len() > before.len() {
            // `use a::{self, B}` imports `a`.
            if names.last().is_some_and(|last| last == "self") {
                names.pop();
            }
            let name = names.last().cloned().unwrap_or_default();
            self.imports.push(Import { name, leads_to: names, is_public });
        }
    }

    /// Adds the paths in `tokens`.
    fn mention(&mut self, tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) {
        let mut before = ' ';
        while let Some(token) = tokens.next() {
            match token {
                TokenTree::Group(group) => self.mention(&mut group.stream().into_iter().peekable()),
                TokenTree::Ident(word) if word == "use" && before != '.' => {
                    // `impl Trait + use<…>` names captured parameters.
                    if !tokens.peek().is_some_and(is_less) {
                        self.import(&[], tokens, false);
                    }
                }
                // The word is not a field, a method or a lifetime.
                TokenTree::Ident(word) if !matches!(before, '.' | '\'') => {
                    let names = path(word.to_string(), tokens);
                    self.mentions.insert(names);
                }
                TokenTree::Ident(_) | TokenTree::Literal(_) => {}
                TokenTree::Punct(punct) => {
                    // `..` is a range, so the next word is not a field.
                    before = if before == '.' { ' ' } else { punct.as_char() };
                    continue;
                }
            }
            before = ' ';
        }
    }
}

/// Returns the path that begins with `first`.
fn path(first: String, tokens: &mut Peekable<impl Iterator<Item = TokenTree>>) -> Names {
    let mut names = vec![first];
    // A single colon precedes a type and is not joint with another colon.
    while tokens.next_if(is_joint_colon).is_some() {
        tokens.next();
        match tokens.next_if(|token| matches!(token, TokenTree::Ident(_))) {
            Some(name) => names.push(name.to_string()),
            None => break,
        }
    }
    names
}

fn is_joint_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == ':' && punct.spacing() == Spacing::Joint)
}

fn is_less(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == '<')
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

/// Removes `pub` or `pub(…)` from an item, and returns whether the item had this visibility.
fn without_visibility(mut item: Vec<TokenTree>) -> (bool, Vec<TokenTree>) {
    let is_public = item.first().is_some_and(|first| is_word(first, "pub"));
    if is_public {
        let has_extent =
            matches!(item.get(1), Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis);
        item.drain(..1 + usize::from(has_extent));
    }
    (is_public, item)
}

/// Returns the items of a module without their attributes and without test items. Tokens after a body in braces, such
/// as a semicolon, count as an item of their own.
fn items(tokens: TokenStream) -> Vec<Vec<TokenTree>> {
    let mut items = Vec::new();
    let mut item: Vec<TokenTree> = Vec::new();
    let mut is_for_tests = false;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        if matches!(&token, TokenTree::Punct(punct) if punct.as_char() == '#') {
            tokens.next_if(|token| matches!(token, TokenTree::Punct(bang) if bang.as_char() == '!'));
            if let Some(TokenTree::Group(attribute)) = tokens.next() {
                is_for_tests |= is_cfg_test(&attribute);
            }
            continue;
        }
        let is_use = item.windows(2).any(|pair| is_word(&pair[0], "use") && !is_less(&pair[1]));
        let ends = match &token {
            TokenTree::Punct(punct) => punct.as_char() == ';',
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace && !is_use,
            TokenTree::Ident(_) | TokenTree::Literal(_) => false,
        };
        item.push(token);
        if ends {
            let whole = std::mem::take(&mut item);
            if !std::mem::take(&mut is_for_tests) {
                items.push(whole);
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the cycles of a crate with these files.
    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let text_of = |path: &Path| {
            let file = files.iter().find(|(name, _)| Path::new(name) == path);
            file.map(|(_, text)| text.to_string())
        };
        Modules::read(Path::new("lib.rs"), &text_of).graph().cycles()
    }

    #[test]
    fn declarations_and_re_exports_alone_are_no_cycle() {
        let root = "mod a;\npub mod b;\npub use a::{A, self as other};\npub(crate) use b::*;\n";
        let a = "use crate::b::B;\npub struct A(B);";
        assert_eq!(cycles(&[("lib.rs", root), ("a.rs", a), ("b/mod.rs", "pub struct B;")]), [""; 0]);
    }

    #[test]
    fn a_child_and_a_parent_that_use_each_other_are_a_cycle() {
        let child = "use super::Parent;\npub struct Child; impl Child { fn f(_: Parent) {} }";
        for parent in [
            "mod child;\nuse child::Child;\npub struct Parent;",
            "mod child;\npub use child::Child;\npub struct Parent(Option<Child>);",
            "mod child;\npub struct Parent;\nfn g(_: child::Child) {}",
            "mod child;\npub struct Parent;\nfn g() { vec![self::child::Child] }",
            "mod child;\nuse child::*;\npub struct Parent { child: Child }",
        ] {
            let found = cycles(&[("lib.rs", parent), ("child.rs", child)]);
            assert_eq!(found, ["child.rs → lib.rs (Parent), lib.rs → child.rs (Child)"], "{parent}");
        }
        let parent = "mod child;\npub use child::Child;\npub struct Parent;\n#[cfg(test)]\nmod tests { use super::*; fn f(_: Child) {} }";
        assert_eq!(cycles(&[("lib.rs", parent), ("child.rs", child)]), [""; 0]);
    }

    #[test]
    fn a_path_leads_to_the_file_that_defines() {
        let root = "mod a;\nmod b;\npub mod inner { pub const N: u8 = 1; }";
        let facade = "mod c; mod d; pub use c::C;";
        let files = |a: &'static str, d: &'static str| {
            [("lib.rs", root), ("a.rs", a), ("b/mod.rs", facade), ("b/c.rs", "pub struct C;"), ("b/d.rs", d)]
        };
        // No cycle: `a` uses `c` through the facade, `d` uses `a`, and `c` uses nothing.
        assert_eq!(cycles(&files("pub fn f(_: crate::b::C) {}", "use crate::{a::f, inner::N};")), [""; 0]);
        let mutual =
            cycles(&files("pub fn f() { if x { crate::b::d::g() } }", "pub fn g() { use crate::a as z; z::f() }"));
        assert_eq!(mutual, ["a.rs → b/d.rs (g), b/d.rs → a.rs (f)"]);
        // Fields, methods, other crates, lifetimes and macros of the standard library do not count as uses.
        let captures = "pub fn f() -> impl Sized + use<> { *x(); loop { *y }; crate::b::d::g() }";
        assert_eq!(cycles(&files(captures, "pub fn g() { crate::a::f() }")), mutual);
        let a = "use std::f as g; pub fn f<'d>(b: &'d B) { b.d.g(); println!(\"crate::b::d::g\"); trace::b::d::g() }";
        assert_eq!(cycles(&files(a, "pub fn g() { super::super::a::f() }")), [""; 0]);
    }
}
