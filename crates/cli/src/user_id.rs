//! User IDs on the command line: a number, or a name of /etc/passwd.

/// File of the local users (`passwd(5)`).
const USERS: &str = "/etc/passwd";

/// Reads `text`, a user ID or the name of a local user.
///
/// # Errors
/// There is no local user of this name.
pub(crate) fn user(text: &str) -> Result<u32, String> {
    if let Ok(number) = text.parse() {
        return Ok(number);
    }
    let users = std::fs::read_to_string(USERS).map_err(|error| format!("cannot read {USERS}: {error}"))?;
    named(&users, text).ok_or_else(|| {
        format!("there is no user {text} in {USERS}\n  help: use the user ID, which `id -u {text}` prints")
    })
}

/// Returns the ID of the user `name` among `users`, the lines of a file of users.
fn named(users: &str, name: &str) -> Option<u32> {
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_wanted = fields.next() == Some(name);
        // The second field is the password.
        fields.nth(1).filter(|_| is_wanted)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_a_number_or_the_name_of_a_local_user() {
        assert_eq!(user("4711"), Ok(4711));
        assert_eq!(user("root"), Ok(0));
        let refused = user("tactus-no-such-user").unwrap_err();
        assert!(refused.contains("there is no user") && refused.contains("id -u"), "{refused}");
        let users = "root:x:0:0:root:/:/bin/sh\ntactus:x:998:997::/:/usr/sbin/nologin\nodd:x\nlast:x:many:0\n";
        assert_eq!(
            ["tactus", "tac", "odd", "last", ""].map(|name| named(users, name)),
            [Some(998), None, None, None, None]
        );
    }
}
