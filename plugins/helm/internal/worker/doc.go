// Package worker has Helm's work done in processes of their own.
//
// A chart is a program that somebody else has written. It may render without an end, ask for all the memory there is, or recurse until the
// stack is full; Go can neither end a goroutine nor survive the last two. Helm's own operations cannot be broken off either. So a Pool
// starts the program that it is in once more for each request, as a worker, which carries the request out and ends. Whatever goes wrong in
// there ends the worker and no more.
//
// # The worker
//
// The main function of a program with a Pool calls Main first thing. In a worker that does not return. The worker is told by its name (the
// first argument) what it is, and everything else through a pipe: arguments and environment of a process are there for others to see.
// The program is started by /proc/self/exe where there is such a thing, so that it is the same one even if its file was replaced or deleted,
// and one that the plugin may execute however it is confined. A confined worker cannot read /proc/self, which is its parent's.
//
// It gets few variables of the environment, a directory of its own for HOME and TMPDIR, which is removed with it, and neither standard input nor
// output. It stays in the process group of its parent, so that the host kills it with the plugin. It ends when the other end of its pipe is
// closed, and on Linux at the latest when its parent does.
//
// # Limits
//
// A worker watches how much memory it has and ends when that is too much, every few milliseconds. One huge allocation fails at once, since the
// kernel bounds the address space (RLIMIT_AS, on Linux). Stacks are bounded by a quarter of the memory.
// Until the chart is rendered the parent looks at the time, and kills a worker that takes far more than it may: Helm has its own eye on that, as
// long as it is in control. It is only held against the chart if the worker was busy, and not if it has waited for the target. Workers have a low priority, for all of their lives: no process without rights gets its priority back.
//
// A worker is not trusted. What it sends is counted against the limits of the request before it is read, and checked; a worker that
// talks nonsense, or too much, is killed.
//
// # The end
//
// When the context of a request ends, the worker is asked to leave off, which ends the context in there, and killed if that takes too
// long. A release is then left as Helm had it at that moment; see helm.Request.Interrupted.
//
// # What is said
//
// Standard error of a worker goes to the log at level debug, without messages of panics and without what goes through package log, in which
// Helm prints values. Errors that a worker makes itself name a release, a limit and what kind of end there was, and never repeat
// what the process wrote.
package worker
