//! [`Element`]: an element of an XML file, with checks of its attributes and children.

use input::problem::{Findings, Problem, Wrong, quoted, right_instead};
use input::source::{Placed, Span};
use roxmltree::Node;
use std::collections::BTreeSet;

/// Maximum value of a number of cycles or milliseconds: below 2^53, so that each whole number is exact.
const NUMBER_MAX: f64 = 9e15;

/// Maximum number of milliseconds: the longest span of time, 2^60 ns.
pub(super) const MS_MAX: f64 = 1_152_921_504_606.0;

/// The attributes that an element may have.
pub(super) struct Known {
    /// Name of the element.
    pub(super) name: &'static str,
    /// Attributes that the conversion reads.
    pub(super) attributes: &'static [&'static str],
    /// Attributes without an effect in SimSo's model of worst-case execution times.
    pub(super) without_effect: &'static [&'static str],
}

/// An element of an XML file.
#[derive(Clone, Copy)]
pub(super) struct Element<'d, 't>(Node<'d, 't>);

impl<'d, 't: 'd> Element<'d, 't> {
    pub(super) fn of(node: Node<'d, 't>) -> Element<'d, 't> {
        Element(node)
    }

    pub(super) fn name(&self) -> &'d str {
        self.0.tag_name().name()
    }

    /// Returns the span of the element's start tag.
    pub(super) fn at(&self) -> Span {
        let range = self.0.range();
        let length = self.name().len() + 1;
        Span { start: range.start, end: (range.start + length).min(range.end) }
    }

    /// Returns the span of the value of an attribute, or the span of the element if it lacks the attribute.
    pub(super) fn at_value(&self, name: &str) -> Span {
        self.0.attribute_node(name).map_or_else(|| self.at(), |attribute| attribute.range_value().into())
    }

    pub(super) fn children(self, name: &'static str) -> impl Iterator<Item = Element<'d, 't>> {
        self.0.children().filter(move |node| node.is_element() && node.tag_name().name() == name).map(Element)
    }

    /// Returns the only child with this name. Reports an error if there is none, or if there are several.
    pub(super) fn only_child(self, name: &'static str, findings: &mut Findings) -> Option<Element<'d, 't>> {
        let mut all = self.children(name);
        let first = all.next();
        match (first, all.next()) {
            (None, _) => {
                let problem = Problem::new(format!("the {} has no element {}", self.name(), quoted(name)));
                findings.add(problem.at(self.at(), "here").help(format!("add one element {}", quoted(name))));
            }
            (Some(_), Some(second)) => {
                let problem = Problem::new(format!("the element {} occurs twice", quoted(name)));
                findings.add(problem.at(second.at(), "again").help("use one"));
            }
            (Some(_), None) => {}
        }
        first
    }

    /// Refuses child elements with other names.
    pub(super) fn check_children(&self, known: &[&str], findings: &mut Findings) {
        for child in self.0.children().filter(|node| node.is_element()).map(Element) {
            if !known.contains(&child.name()) {
                let problem = Problem::new(format!("there is no element {} in {}", quoted(child.name()), self.name()));
                let help = if known.is_empty() { "remove it".to_string() } else { right_instead(child.name(), known) };
                findings.add(problem.at(child.at(), "unknown element").help(help));
            }
        }
    }

    /// Refuses attributes with other names.
    pub(super) fn check(&self, known: &Known, findings: &mut Findings) {
        self.check_data(known, &BTreeSet::new(), findings);
    }

    /// Refuses attributes with other names. `fields` are the names of additional data.
    pub(super) fn check_data(&self, known: &Known, fields: &BTreeSet<&str>, findings: &mut Findings) {
        for attribute in self.0.attributes() {
            let name = attribute.name();
            let is_known = |all: &[&str]| all.contains(&name);
            if !is_known(known.attributes) && !is_known(known.without_effect) && !fields.contains(name) {
                let problem =
                    Problem::new(format!("the attribute {} of {} is not supported", quoted(name), known.name));
                findings.add(
                    problem.at(attribute.range().into(), "not supported").help(right_instead(name, known.attributes)),
                );
            }
        }
    }

    /// Returns the names of the data fields that the children `field` declare.
    pub(super) fn fields(self) -> BTreeSet<&'d str> {
        self.children("field").filter_map(|field| field.0.attribute("name")).collect()
    }

    /// Returns the text of an attribute.
    pub(super) fn text(&self, name: &str) -> Option<Placed<&'d str>> {
        let attribute = self.0.attribute_node(name)?;
        Some(Placed { value: attribute.value(), at: attribute.range_value().into() })
    }

    /// Returns the text of an attribute that the element must have.
    pub(super) fn required(&self, name: &str, findings: &mut Findings) -> Option<Placed<&'d str>> {
        let text = self.text(name);
        if text.is_none() {
            let problem = Problem::new(format!("the {} has no {name}", self.name()));
            findings
                .add(problem.at(self.at(), format!("no {name}")).help(format!("add the attribute {}", quoted(name))));
        }
        text
    }

    /// Returns the whole number in an attribute. `None`: the element lacks the attribute, or the number is invalid and
    /// an error is reported.
    pub(super) fn whole(&self, name: &str, findings: &mut Findings) -> Option<u64> {
        let text = self.text(name)?;
        let number = text.value.trim().parse::<u64>().ok();
        #[expect(clippy::cast_precision_loss, reason = "greater numbers are refused")]
        let number = number.filter(|&number| number as f64 <= NUMBER_MAX);
        if number.is_none() {
            findings.add(wrong_value(text, name, "use a whole number from 0 to 9000000000000000"));
        }
        number
    }

    /// Returns the number in an attribute, rounded down; zero if the element lacks the attribute. `of` names the
    /// element in an error.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the range is checked")]
    pub(super) fn floor(&self, of: &str, name: &str, findings: &mut Findings) -> u64 {
        let Some(text) = self.text(name) else { return 0 };
        match number(text.value) {
            Some(number) => number as u64,
            None => {
                findings.add(wrong_value(text, &format!("{name} of {of}"), "use a number of cycles, from 0"));
                0
            }
        }
    }

    /// Returns the number of milliseconds in an attribute that the element must have. Range: 0 to [`MS_MAX`].
    pub(super) fn ms(&self, name: &str, findings: &mut Findings) -> Option<Placed<f64>> {
        let text = self.required(name, findings)?;
        let value = milliseconds(text.value);
        if value.is_none() {
            findings.add(wrong_value(text, name, &format!("use a number of milliseconds from 0 to {MS_MAX}")));
        }
        value.map(|value| Placed { value, at: text.at })
    }

    /// Refuses an attribute whose value is not `expected`, because SimSo or Tactus ignores it.
    pub(super) fn must_be(&self, name: &str, expected: f64, reason: &str, findings: &mut Findings) {
        if let Some(text) = self.text(name)
            && number(text.value) != Some(expected)
        {
            let problem = Problem::new(format!("the attribute {} is not supported: {reason}", quoted(name)));
            findings.add(problem.at(text.at, "not supported").help(format!("use {name}=\"{expected}\"")));
        }
    }
}

/// Parses a number of milliseconds from 0 to [`MS_MAX`].
pub(super) fn milliseconds(text: &str) -> Option<f64> {
    number(text).filter(|ms| *ms <= MS_MAX)
}

/// Parses a number from 0 to [`NUMBER_MAX`].
fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| (0.0..=NUMBER_MAX).contains(number))
}

/// Returns the problem of a value.
pub(super) fn wrong_value(value: Placed<&str>, what: &str, help: &str) -> Problem {
    Wrong::new(format!("{what} is {}", quoted(value.value)), "not a valid value", help).at(value.at)
}
