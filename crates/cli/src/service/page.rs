//! `tactus page`: the page of the service, for a browser on this host.

use super::places;
use crate::failure::{Failure, refused};
use crate::output;
use crate::service_args::PageArgs;
use page::Page;

/// Answers the requests of one browser until this process is interrupted.
pub(crate) fn page(args: &PageArgs) -> Result<(), Failure> {
    let socket = places::socket_of_client(args.socket.as_deref());
    // An address without a service would be of no use.
    api::Client::at(&socket)?.caller()?;
    let page = Page::open(socket, args.port).map_err(|reason| refused(&reason))?;
    output::print(&format!("{}\n", page.url()))?;
    output::complain("open the address in a browser; it admits one browser, and works until this command ends");
    page.serve(output::is_interrupted).map_err(anyhow::Error::from)?;
    if output::is_interrupted() { Err(Failure::Interrupted) } else { Ok(()) }
}
