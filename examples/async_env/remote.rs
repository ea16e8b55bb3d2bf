//! CartPole behind a network: the server, and the environment that connects to it.
//!
//! A request is 9 bytes, `0` and the seed to reset with or `1` and the action; the answer is 21, the
//! observation, the reward and whether the episode has ended.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use pronk::AsyncEnv;
use pronk::envs::CartPole;
use pronk::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const RESET: u8 = 0;
const STEP: u8 = 1;
const REQUEST: usize = 9;
const ANSWER: usize = 21;

/// The environment: a connection to a server.
pub(crate) struct RemoteCartPole {
    server: TcpStream,
}

impl RemoteCartPole {
    /// Connects to a server.
    pub(crate) async fn connect(address: SocketAddr) -> Result<Self, EnvError> {
        let server = TcpStream::connect(address).await.map_err(EnvError::new)?;
        server.set_nodelay(true).map_err(EnvError::new)?;
        Ok(Self { server })
    }

    async fn ask(&mut self, what: u8, number: u64, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        let mut request = [what; REQUEST];
        request[1..].copy_from_slice(&number.to_le_bytes());
        self.server.write_all(&request).await.map_err(EnvError::new)?;
        let mut answer = [0; ANSWER];
        self.server.read_exact(&mut answer).await.map_err(EnvError::new)?;
        let numbers: Vec<f32> = answer.chunks_exact(4).map(|n| f32::from_le_bytes([n[0], n[1], n[2], n[3]])).collect();
        obs.write(&numbers[..4])?;
        Ok(Step { reward: numbers[4], end: if answer[20] == 1 { End::Terminated } else { End::No } })
    }
}

impl AsyncEnv for RemoteCartPole {
    fn spec(&self) -> EnvSpec {
        CartPole::new().spec()
    }

    async fn reset(&mut self, seed: u64, obs: ObsMut<'_>) -> Result<(), EnvError> {
        self.ask(RESET, seed, obs).await.map(drop)
    }

    async fn step(&mut self, action: ActionRef<'_>, obs: ObsMut<'_>) -> Result<Step, EnvError> {
        self.ask(STEP, action.discrete()?.into(), obs).await
    }
}

/// Starts a server on its own thread, which ends with the process, and returns its address. Each answer takes
/// `latency(connection, request)`; without one, the server hangs up.
pub(crate) fn serve(latency: impl Fn(u64, u64) -> Option<Duration> + Copy + Send + 'static) -> io::Result<SocketAddr> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listener = runtime.block_on(TcpListener::bind(("127.0.0.1", 0)))?;
    let address = listener.local_addr()?;
    std::thread::Builder::new().name("server".to_owned()).spawn(move || {
        runtime.block_on(async {
            for connection in 0.. {
                let Ok((client, _)) = listener.accept().await else { return };
                tokio::spawn(play(client, move |request| latency(connection, request)));
            }
        });
    })?;
    Ok(address)
}

/// Answers a client until it hangs up.
async fn play(mut client: TcpStream, latency: impl Fn(u64) -> Option<Duration>) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut env = CartPole::new();
    let mut obs = [0.0; 4];
    for n in 0.. {
        let mut request = [0; REQUEST];
        client.read_exact(&mut request).await?;
        let Some(latency) = latency(n) else { return Ok(()) };
        tokio::time::sleep(latency).await;
        let [what, number @ ..] = request;
        let number = u64::from_le_bytes(number);
        let row = ObsMut::F32(&mut obs);
        let step = match what {
            RESET => env.reset(number, row).map(|()| Step { reward: 0.0, end: End::No }),
            _ => env.step(ActionRef::Discrete(&[number as u32]), row),
        };
        let step = step.map_err(io::Error::other)?;
        let mut answer = Vec::with_capacity(ANSWER);
        answer.extend(obs.iter().chain([&step.reward]).flat_map(|number| number.to_le_bytes()));
        answer.push(u8::from(step.end == End::Terminated));
        client.write_all(&answer).await?;
    }
    Ok(())
}
