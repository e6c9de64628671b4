//! Gathering: commands that arrive while a transaction runs go together into the next one.
//!
//! The commit is the cost, so what waits for it anyway shares it. A lone command is never held back: a worker that is free
//! takes whatever is there, one command as soon as sixty-four. Each kind of command has workers of its own, and so a share
//! of the pool of its own: notices commit while creates storm, and the other way round.
//!
//! Every command gets its own answer. A batch that the database refuses as a whole is run again command by command, so a
//! bad one never spoils its neighbours. The queue is bounded: a command that finds no place was surely not executed and is
//! answered so; one that waited too long may still be executed, and the same key finds out.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use contract::reason::{Reason, Refusal};
use futures::future::BoxFuture;
use service_kit::{CancellationToken, task};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::Error;

/// Commands of one transaction. Measured: 64 reach six times what one transaction per command can, more add little.
pub(crate) const BATCH_MAX: usize = 64;
/// Commands that wait, of one kind. At a few thousand a second they wait well below a second.
const QUEUE_MAX: usize = 1_024;
/// When a command that found no place should come again.
const QUEUE_RETRY: Duration = Duration::from_millis(100);

/// Runs commands as one batch, an answer for each in the order given.
type Run<C, A> = dyn for<'a> Fn(&'a [C]) -> BoxFuture<'a, Result<Vec<A>, Error>> + Send + Sync;

struct Job<C, A> {
    command: C,
    answer: oneshot::Sender<Result<A, Error>>,
}

/// The queue in front of the workers of one kind of command.
pub(crate) struct Gather<C, A> {
    name: &'static str,
    queue: mpsc::Sender<Job<C, A>>,
}

impl<C, A> Clone for Gather<C, A> {
    fn clone(&self) -> Self {
        Self { name: self.name, queue: self.queue.clone() }
    }
}

impl<C, A> fmt::Debug for Gather<C, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gather({}, {} places free)", self.name, self.queue.capacity())
    }
}

impl<C: Send + Sync + 'static, A: Send + 'static> Gather<C, A> {
    /// Starts `workers` that run batches until `stop`, then finish what waits.
    pub(crate) fn start(
        name: &'static str,
        workers: usize,
        stop: &CancellationToken,
        run: impl for<'a> Fn(&'a [C]) -> BoxFuture<'a, Result<Vec<A>, Error>> + Send + Sync + 'static,
    ) -> Self {
        let (queue, jobs) = mpsc::channel(QUEUE_MAX);
        let (jobs, run): (_, Arc<Run<C, A>>) = (Arc::new(Mutex::new(jobs)), Arc::new(run));
        for _ in 0..workers {
            let worker = work(name, Arc::clone(&jobs), Arc::clone(&run), stop.clone());
            // Its handle is not needed: the queue's end ends it.
            drop(task::spawn(name, worker));
        }
        Self { name, queue }
    }

    /// Puts a command in and waits for its own answer, at most `wait`.
    ///
    /// # Errors
    /// `OVERLOADED` when no place was free, and nothing was done; [`Error::Unanswered`] when no answer came in time, and
    /// what was done is not known; otherwise the command's own error.
    pub(crate) async fn call(&self, command: C, wait: Duration) -> Result<A, Error> {
        let (answer, answered) = oneshot::channel();
        if self.queue.try_send(Job { command, answer }).is_err() {
            metrics::counter!("oncepay_queue_full_total", "queue" => self.name).increment(1);
            return Err(Refusal::new(Reason::Overloaded, "too many commands wait; send the same key again")
                .retry_after(QUEUE_RETRY)
                .into());
        }
        match tokio::time::timeout(wait, answered).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) | Err(_) => Err(Error::Unanswered),
        }
    }
}

async fn work<C, A>(
    name: &'static str,
    jobs: Arc<Mutex<mpsc::Receiver<Job<C, A>>>>,
    run: Arc<Run<C, A>>,
    stop: CancellationToken,
) {
    loop {
        let batch = {
            let mut jobs = jobs.lock().await;
            let mut batch = Vec::new();
            // After `stop` the queue is emptied without waiting for more.
            let taken = match stop.run_until_cancelled(jobs.recv_many(&mut batch, BATCH_MAX)).await {
                Some(taken) => taken,
                None => {
                    jobs.close();
                    jobs.recv_many(&mut batch, BATCH_MAX).await
                }
            };
            if taken == 0 {
                return;
            }
            batch
        };
        // Nobody waits for these any more: they were not begun, and their callers were told that nothing is known.
        let (commands, answers): (Vec<C>, Vec<_>) = batch
            .into_iter()
            .filter(|job| !job.answer.is_closed())
            .map(|job| (job.command, job.answer))
            .unzip();
        if commands.is_empty() {
            continue;
        }
        metrics::histogram!("oncepay_batch_commands", "queue" => name)
            .record(u32::try_from(commands.len()).unwrap_or(u32::MAX));
        for (told, answer) in run_each(&*run, &commands).await.into_iter().zip(answers) {
            // A caller that went away does not hear; what was committed stays, and the same key finds it.
            drop(answer.send(told));
        }
    }
}

/// One transaction for all; where it fails as a whole for another reason than the database's absence, one for each.
async fn run_each<C, A>(run: &Run<C, A>, commands: &[C]) -> Vec<Result<A, Error>> {
    let error = match run(commands).await {
        Ok(answers) => return answers.into_iter().map(Ok).collect(),
        Err(error) => error,
    };
    if commands.len() == 1 {
        return vec![Err(error)];
    }
    if error.is_unavailable() {
        tracing::warn!(%error, commands = commands.len(), "a batch met no database");
        return commands.iter().map(|_| Err(Error::Unanswered)).collect();
    }
    tracing::warn!(%error, commands = commands.len(), "a batch failed; its commands are run one by one");
    metrics::counter!("oncepay_batches_split_total").increment(1);
    let mut told = Vec::with_capacity(commands.len());
    for command in commands {
        let alone = run(std::slice::from_ref(command)).await;
        told.push(alone.and_then(|answers| answers.into_iter().next().ok_or(Error::Overtaken)));
    }
    told
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;
    use futures::future::join_all;
    use tokio::sync::Semaphore;

    use super::*;

    const LONG: Duration = Duration::from_secs(30);

    fn bad() -> Error {
        Error::Corrupt(pay_types::Invalid::new("command", "is bad"))
    }

    /// Doubles numbers; a batch that holds a negative one fails as a whole. Notes the size of each batch.
    fn doubling(gate: Arc<Semaphore>, sizes: Arc<std::sync::Mutex<Vec<usize>>>) -> Gather<i64, i64> {
        Gather::start("doubling", 1, &CancellationToken::new(), move |batch: &[i64]| {
            let (gate, sizes) = (Arc::clone(&gate), Arc::clone(&sizes));
            async move {
                drop(gate.acquire().await);
                sizes.lock().unwrap().push(batch.len());
                if batch.iter().any(|n| *n < 0) {
                    Err(bad())
                } else {
                    Ok(batch.iter().map(|n| n * 2).collect())
                }
            }
            .boxed()
        })
    }

    /// Fails when a worker waits for more than it has, or takes one command at a time.
    #[tokio::test]
    async fn what_arrives_while_a_batch_runs_shares_the_next_one() {
        let (gate, sizes) = (Arc::new(Semaphore::new(0)), Arc::default());
        let gather = doubling(Arc::clone(&gate), Arc::clone(&sizes));
        let calls = join_all((1..=100).map(|n| gather.call(n, LONG)));
        let open = async {
            while gather.queue.capacity() > QUEUE_MAX - 1 {
                tokio::task::yield_now().await;
            }
            gate.add_permits(1_000);
        };
        let (answers, ()) = futures::join!(calls, open);
        for (n, answer) in (1..).zip(answers) {
            assert_eq!(answer.unwrap(), n * 2, "each command has its own answer");
        }
        let sizes = sizes.lock().unwrap();
        assert!(sizes.len() <= 3 && sizes.iter().all(|size| *size <= BATCH_MAX), "{sizes:?}");
    }

    /// Fails without the second run, command by command.
    #[tokio::test]
    async fn one_bad_command_never_spoils_its_neighbours() {
        let gather = doubling(Arc::new(Semaphore::new(1_000)), Arc::default());
        let answers = join_all([1, -1, 3].map(|n| gather.call(n, LONG))).await;
        assert_eq!(answers[0].as_ref().unwrap(), &2);
        assert!(matches!(answers[1], Err(Error::Corrupt(_))));
        assert_eq!(answers[2].as_ref().unwrap(), &6);
    }

    /// Fails when the queue grows without a bound, or when a full queue makes its caller wait.
    #[tokio::test]
    async fn a_command_that_finds_no_place_is_told_so_at_once() {
        let gate = Arc::new(Semaphore::new(0));
        let gather = doubling(Arc::clone(&gate), Arc::default());
        let waiting = join_all((0..=QUEUE_MAX + BATCH_MAX).map(|_| gather.call(1, Duration::ZERO)));
        let answers = waiting.await;
        let full = answers.iter().filter(|a| matches!(a, Err(Error::Refused(_)))).count();
        let unknown = answers.iter().filter(|a| matches!(a, Err(Error::Unanswered))).count();
        assert!(full >= 1, "some found no place");
        assert!(unknown >= QUEUE_MAX, "those with a place heard nothing in time: {unknown}");
        gate.add_permits(1_000);
    }

    #[tokio::test]
    async fn a_stop_finishes_what_waits() {
        let stop = CancellationToken::new();
        let gather: Gather<i64, i64> = Gather::start("echo", 2, &stop, |batch: &[i64]| {
            let batch = batch.to_vec();
            async move { Ok(batch) }.boxed()
        });
        let calls = join_all((0..10).map(|n| gather.call(n, LONG)));
        let (answers, ()) = futures::join!(calls, async { stop.cancel() });
        assert!(answers.iter().all(Result::is_ok));
    }
}
