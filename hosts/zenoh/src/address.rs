//! Addresses, and which of them may be used.

use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};
use std::time::{Duration, Instant};
use std::{fmt, io, thread};

use pronk_hosts::LinkError;

/// `tcp/HOST:PORT` or `quic/HOST:PORT`, and nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    pub(crate) protocol: Protocol,
    /// With the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Quic,
}

impl Protocol {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        }
    }
}

/// How the bytes are protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protection {
    Certificates,
    /// Plain bytes, which the user asked for by name.
    Insecure,
    /// Plain bytes that do not leave the machine.
    Loopback,
}

impl Address {
    /// Reads an address. Without a protocol, `protection` decides which one it is.
    pub(crate) fn parse(text: &str, protection: Protection) -> Result<Self, LinkError> {
        let refuse = |reason: String| LinkError { address: text.to_owned(), reason };
        let (protocol, rest) = match text.split_once('/') {
            None if protection == Protection::Certificates => (Protocol::Quic, text),
            None => (Protocol::Tcp, text),
            Some(("tcp", rest)) => (Protocol::Tcp, rest),
            Some(("quic", rest)) => (Protocol::Quic, rest),
            Some((other, _)) => {
                return Err(refuse(format!("`{other}/` is not supported: write `quic/HOST:PORT` or `tcp/HOST:PORT`")));
            }
        };
        let shape = || refuse("not an address: write HOST:PORT, for example `quic/learner.example:7447`".into());
        let (host, port) = rest.rsplit_once(':').ok_or_else(shape)?;
        let port = port.parse().map_err(|_| shape())?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let well_formed = match bare {
            Some(v6) => v6.parse::<std::net::Ipv6Addr>().is_ok(),
            // Zenoh reads settings of a link behind `?` and `#`.
            None => !host.is_empty() && host.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._".contains(&b)),
        };
        if !well_formed {
            return Err(shape());
        }
        let address = Self { protocol, host: host.to_owned(), port };
        address.check(protection).map_err(refuse)?;
        Ok(address)
    }

    fn check(&self, protection: Protection) -> Result<(), String> {
        match (self.protocol, protection) {
            (Protocol::Quic, Protection::Certificates) | (Protocol::Tcp, Protection::Insecure) => Ok(()),
            (Protocol::Quic, _) => Err("quic needs certificates: give them with `certificates(..)`, or make some \
                with `make_certificates`"
                .into()),
            (Protocol::Tcp, Protection::Certificates) => {
                Err("tcp is not encrypted and cannot use the certificates: write `quic/`".into())
            }
            (Protocol::Tcp, Protection::Loopback) if self.is_loopback() => Ok(()),
            (Protocol::Tcp, Protection::Loopback) => Err("plain tcp beyond this machine can be read and forged by \
                anyone on the way: use `quic/` with certificates, or say `insecure()`"
                .into()),
        }
    }

    fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// The same address with a port that is free now, if its own is 0: zenoh does not say which one it was
    /// given.
    pub(crate) fn with_free_port(&self) -> Result<Self, LinkError> {
        if self.port != 0 {
            return Ok(self.clone());
        }
        let bound = self.bind();
        let bound = bound.map_err(|e| LinkError {
            address: self.to_string(),
            reason: format!("no port can be bound on this host name or address: {e}"),
        })?;
        Ok(Self { port: bound.port(), ..self.clone() })
    }

    /// Waits until the port can be listened on again, at most for `time`.
    pub(crate) fn wait_until_free(&self, time: Duration) {
        let deadline = Instant::now() + time;
        while self.bind().is_err() && Instant::now() < deadline {
            thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// Binds the address for a moment, and returns the one that it was given.
    fn bind(&self) -> io::Result<SocketAddr> {
        let address = format!("{}:{}", self.host, self.port);
        match self.protocol {
            Protocol::Tcp => TcpListener::bind(address)?.local_addr(),
            Protocol::Quic => UdpSocket::bind(address)?.local_addr(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.protocol.name(), self.host, self.port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, protection: Protection) -> Result<String, String> {
        Address::parse(text, protection).map(|a| a.to_string()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_bare_address_is_quic_with_certificates_and_tcp_without() {
        assert_eq!(parsed("learner:7", Protection::Certificates).unwrap(), "quic/learner:7");
        assert_eq!(parsed("127.0.0.1:7", Protection::Loopback).unwrap(), "tcp/127.0.0.1:7");
        assert_eq!(parsed("[::1]:7", Protection::Loopback).unwrap(), "tcp/[::1]:7");
    }

    #[test]
    fn plain_tcp_stays_on_loopback_unless_the_user_says_insecure() {
        for address in ["tcp/localhost:7", "tcp/127.8.0.1:7", "tcp/[::1]:7"] {
            assert_eq!(parsed(address, Protection::Loopback).unwrap(), address);
        }
        for address in ["tcp/0.0.0.0:7", "tcp/[::]:7", "tcp/learner.example:7", "10.0.0.1:7", "tcp/localhost.example:7"]
        {
            let refused = parsed(address, Protection::Loopback).unwrap_err();
            assert!(refused.starts_with(address) && refused.contains("insecure()"), "{refused}");
            parsed(address, Protection::Insecure).unwrap();
        }
    }

    #[test]
    fn quic_needs_certificates_and_tcp_takes_none() {
        assert!(parsed("quic/localhost:7", Protection::Loopback).unwrap_err().contains("needs certificates"));
        assert!(parsed("quic/localhost:7", Protection::Insecure).unwrap_err().contains("needs certificates"));
        assert!(parsed("tcp/localhost:7", Protection::Certificates).unwrap_err().contains("`quic/`"));
    }

    #[test]
    fn other_protocols_and_malformed_addresses_are_refused() {
        for address in ["tls/a:7", "udp/a:7", "quic_datagram/a:7", "ws/a:7", "/a:7", "TCP/a:7"] {
            assert!(parsed(address, Protection::Insecure).unwrap_err().contains("not supported"), "{address}");
        }
        for address in ["a", "tcp/:7", "tcp/a:", "tcp/a:70000", "tcp/a:7#iface=eth0", "tcp/a?rel=0:7", "tcp/::1:7", ""]
        {
            assert!(parsed(address, Protection::Insecure).unwrap_err().contains("HOST:PORT"), "{address}");
        }
    }
}
