// Package worker has Helm's work done in processes of their own.
//
// A chart is a program that somebody else has written. It may render without an end, ask for all the memory there is,
// or recurse until the stack is full; Go can neither end a goroutine nor survive the last two. Helm's own operations
// cannot be cancelled either. So a Pool starts the program that it is in once more, as a worker, which carries out one
// request at a time. Whatever goes wrong in there ends the worker and no more.
//
// # The worker
//
// The main function of a program with a Pool calls Main first. In a worker that does not return. The worker is told by
// its name (the first argument) what it is, and everything else through its standard input: others can see arguments
// and environment of a process. It answers on its standard output. Both sides send values of one type each in gob; see
// order and report.
//
// The program is started by /proc/self/exe where there is such a thing, so that it is the same one even if its file was
// replaced or deleted, and one that the plugin may execute however it is confined. A worker is confined as its parent
// is. It stays in the process group of its parent, so that the host kills it with the plugin, and on Linux the kernel
// ends it with its parent.
//
// # Reuse
//
// To start a worker takes more time than a small chart does. A worker that has succeeded waits for the next request,
// and a request waits for a moment for a worker that others use. After an error a worker ends: a wait of Helm's may go
// on in it. See Pool.Run.
//
// # Limits
//
// A worker ends itself when it has more memory than it may. One huge allocation fails at once, since the kernel bounds
// the address space (RLIMIT_AS, on Linux). The parent kills a worker that has not rendered its chart in time. The time
// only counts against the chart if the worker was busy, and not if it has waited for the target. Workers have a low
// priority.
//
// # The end
//
// When the context of a request ends, the worker's standard input is closed, which ends the context in there; it is
// killed if that takes too long. A release is then left as Helm had it at that moment; see helm.Request.Interrupted.
//
// # Logs and errors
//
// Standard error of a worker goes to the log at level debug, without messages of panics and without what goes through
// package log, in which Helm prints values; see helm.ReasonChart for what it warns of there. Errors that this package
// makes name a release, a limit and how the process has ended, and never repeat what the process wrote.
package worker
