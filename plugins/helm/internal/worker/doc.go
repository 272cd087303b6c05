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
// its name (the first argument) what it is, and everything else through a pipe: others can see arguments and
// environment of a process. The program is started by /proc/self/exe where there is such a thing, so that it is the
// same one even if its file was replaced or deleted, and one that the plugin may execute however it is confined. A
// confined worker cannot read /proc/self, which is its parent's.
//
// It gets few variables of the environment, a directory of its own for HOME and TMPDIR, which is removed with it, and
// neither standard input nor output. It stays in the process group of its parent, so that the host kills it with the
// plugin. It ends when its pipe is closed, and on Linux at the latest when its parent does.
//
// Both sides send values of one type each in gob; see order and report.
//
// # Reuse
//
// To start a worker takes more time than a small chart does. A worker that has succeeded waits for the next request
// of the same memory limit. After an error it ends: a template that has no end may still run in it. See Pool.keep.
//
// # Limits
//
// A worker ends itself when it has more memory than it may. One huge allocation fails at once, since the kernel bounds
// the address space (RLIMIT_AS, on Linux). Stacks are bounded by a quarter of the memory. Until the chart is rendered
// the parent watches the time, and kills a worker that takes far more than it may: package helm3 has a limit of its
// own, as long as it is in control. The time only counts against the chart if the worker was busy, and not if it has
// waited for the target. Workers have a low priority.
//
// A message of a worker that is larger than the limits of its request explain ends the worker before it is read.
//
// # The end
//
// When the context of a request ends, the worker is asked to stop, which ends the context in there, and killed if that
// takes too long. A release is then left as Helm had it at that moment; see helm.Request.Interrupted.
//
// # Logs and errors
//
// Standard error of a worker goes to the log at level debug, without messages of panics and without what goes through
// package log, in which Helm prints values. Errors that this package makes name a release, a limit and how the process
// has ended, and never repeat what the process wrote.
package worker
