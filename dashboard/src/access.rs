//! [`Access`]: who may read.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use crate::error::DashboardError;

/// Who may read: everyone on this machine, or clients with the token.
#[derive(Debug)]
pub(crate) struct Access {
    addr: SocketAddr,
    token: RwLock<Option<Arc<str>>>,
}

/// What comes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Allowed,
    /// It has no token, or a wrong one.
    NoToken,
    /// A page of another site may have made it.
    WrongHost,
}

impl Access {
    /// The access to an address: with a random token unless only this machine can reach it.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub(crate) fn new(addr: SocketAddr) -> Result<Self, DashboardError> {
        let token = if addr.ip().to_canonical().is_loopback() { None } else { Some(random_token()?) };
        Ok(Self { addr, token: RwLock::new(token) })
    }

    /// From now on clients with this token may read.
    ///
    /// # Errors
    /// It could not be part of an address, or is too short.
    pub(crate) fn set_token(&self, token: &str) -> Result<(), DashboardError> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
        if !(8..=200).contains(&token.len()) || !token.bytes().all(allowed) {
            return Err(DashboardError::Token);
        }
        *self.token.write().unwrap_or_else(PoisonError::into_inner) = Some(token.into());
        Ok(())
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// What to open in a browser: for all addresses of this machine, the one at which others reach it.
    pub(crate) fn url(&self) -> String {
        let mut addr = self.addr;
        if addr.ip().is_unspecified() {
            addr.set_ip(outward(addr.ip()));
        }
        match self.token() {
            Some(token) => format!("http://{addr}/?token={token}"),
            None => format!("http://{addr}/"),
        }
    }

    pub(crate) fn verdict(&self, headers: &HeaderMap) -> Verdict {
        match self.token() {
            Some(_) if self.has_cookie(headers) => Verdict::Allowed,
            Some(_) => Verdict::NoToken,
            None if is_loopback(headers) => Verdict::Allowed,
            None => Verdict::WrongHost,
        }
    }

    /// The cookie of this token; `None` if it is wrong, or none is asked for.
    ///
    /// It is sent when a link of another site opens the page (`Lax`), which shows that site nothing.
    pub(crate) fn cookie(&self, token: &str) -> Option<String> {
        let is_right = is_equal(token, &self.token()?);
        is_right.then(|| format!("{}={token}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax", self.cookie_name()))
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let Some(token) = self.token() else { return false };
        let texts = headers.get_all(header::COOKIE).into_iter().filter_map(|cookies| cookies.to_str().ok());
        let mut cookies =
            texts.flat_map(|cookies| cookies.split(';')).filter_map(|cookie| cookie.trim().split_once('='));
        let name = self.cookie_name();
        cookies.any(|(its_name, value)| its_name == name && is_equal(value, &token))
    }

    /// Browsers share cookies among the ports of a machine.
    fn cookie_name(&self) -> String {
        format!("pronk-{}", self.addr.port())
    }

    fn token(&self) -> Option<Arc<str>> {
        self.token.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The address of this machine from which packets leave for other networks, of the family of `unspecified`;
/// loopback without a network.
fn outward(unspecified: IpAddr) -> IpAddr {
    // Addresses of documentation: nothing is sent, only a route chosen.
    let (loopback, elsewhere) = match unspecified {
        IpAddr::V4(_) => (IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::from([192, 0, 2, 1])),
        IpAddr::V6(_) => (IpAddr::V6(Ipv6Addr::LOCALHOST), IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, 1])),
    };
    let address = || {
        let socket = UdpSocket::bind((unspecified, 0))?;
        socket.connect((elsewhere, 9))?;
        socket.local_addr()
    };
    address().map_or(loopback, |address: SocketAddr| address.ip())
}

/// Whether the address that the browser connects to is this machine's own. Otherwise a page of
/// another site could read the answers, by a name that leads to 127.0.0.1.
fn is_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(header::HOST).into_iter();
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next()) else { return false };
    // What stands around an address counts too: `[::1].evil.example` is another site.
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address = match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(name) => name.parse().map(IpAddr::V6),
        None => name.parse().map(IpAddr::V4),
    };
    name.eq_ignore_ascii_case("localhost") || address.is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// In a time that does not depend on where they differ.
fn is_equal(a: &str, b: &str) -> bool {
    a.as_bytes().ct_eq(b.as_bytes()).into()
}

fn random_token() -> Result<Arc<str>, DashboardError> {
    let mut bytes = [0; 16];
    let refused = |error: getrandom::Error| DashboardError::Thread { what: "random token", source: error.into() };
    getrandom::fill(&mut bytes).map_err(refused)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(host: &str) -> HeaderMap {
        HeaderMap::from_iter([(header::HOST, host.parse().unwrap())])
    }

    #[test]
    fn only_names_of_this_machine_are_served_without_a_token() {
        let access = Access::new("127.0.0.1:8080".parse().unwrap()).unwrap();
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1:8080", "127.3.2.1", "[::1]:8080", "[::1]"] {
            assert_eq!(access.verdict(&headers(host)), Verdict::Allowed, "{host}");
        }
        let names =
            ["", "evil.example", "localhost.evil.example:80", "127.0.0.1.evil.example", "10.0.0.1", "[::1", "::"];
        let around =
            ["[::1].evil.example:80", "[::1]x:80", "[::1]80", "[127.0.0.1]", "localhost:evil.example", "127.0.0.1:8:0"];
        for host in names.into_iter().chain(around) {
            assert_eq!(access.verdict(&headers(host)), Verdict::WrongHost, "{host}");
        }
        assert_eq!(access.verdict(&HeaderMap::new()), Verdict::WrongHost);
    }

    #[test]
    fn other_addresses_have_a_token_of_their_own() {
        let open = || Access::new("0.0.0.0:8080".parse().unwrap()).unwrap();
        let (a, b) = (open(), open());
        assert_ne!(a.token(), b.token());
        let url = a.url();
        let addr = url.strip_prefix("http://").and_then(|rest| rest.split_once("/?token=")).unwrap().0;
        let addr: SocketAddr = addr.parse().unwrap();
        assert!(addr.port() == 8080 && !addr.ip().is_unspecified(), "{url}");
        assert_eq!(a.verdict(&headers("anything")), Verdict::NoToken);
        let token = a.token().unwrap();
        assert_eq!(b.cookie(&token), None);
        let cookie = a.cookie(&token).unwrap();
        assert!(cookie.ends_with("; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax"), "{cookie}");
        let mut with_cookie = headers("anything");
        with_cookie.insert(header::COOKIE, format!("x=y; {}", cookie.split(';').next().unwrap()).parse().unwrap());
        assert_eq!(a.verdict(&with_cookie), Verdict::Allowed);
        assert_eq!(b.verdict(&with_cookie), Verdict::NoToken);
    }

    #[test]
    fn tokens_that_are_short_or_no_part_of_an_address_are_refused() {
        let access = Access::new("[::1]:0".parse().unwrap()).unwrap();
        for token in ["", "short", "with space", "semi;colon", "töken-ö-ö", &"x".repeat(201)] {
            assert!(access.set_token(token).is_err(), "{token}");
        }
        access.set_token("correct-horse").unwrap();
        assert_eq!(access.verdict(&headers("localhost")), Verdict::NoToken);
        assert_eq!(access.url(), "http://[::1]:0/?token=correct-horse");
    }
}
