// Package worker runs Helm in processes of its own.
//
// A chart is a program of foreign origin. It may render without an end, ask for all memory, or recurse until the stack
// is full; Go can neither end a goroutine nor survive the last two. Helm's own operations cannot be cancelled either.
// The index of a chart repository asks for any amount of memory, too. So a Pool starts its own program once more, as a
// worker, and the worker carries out one request at a time. Any failure in there ends the worker and no more.
//
// # The worker
//
// The main function of a program with a Pool calls Main first. In a worker that does not return. The worker knows its
// role from its name (the first argument), and everything else from its standard input: arguments and environment of a
// process are visible to others. It answers on its standard output. Both sides send values of one type each in gob;
// see order and report.
//
// The program is started by /proc/self/exe if there is one: the same program even if its file was replaced or deleted,
// and executable for the plugin under any confinement. A worker has the confinement of its parent. It stays in the
// process group of its parent, so the host kills it with the plugin, and on Linux the kernel ends it with its parent.
//
// # Reuse
//
// The start of a worker, with the first use of Helm in it, takes a hundred times as long as a small chart, and a
// multiple of the CPU time of a whole job. After a success a worker waits for the next request, and a request waits for
// a moment for a busy worker. After an error a worker ends: a wait of Helm's may go on in it. See Pool.Run.
//
// # Limits
//
// A worker ends itself above its limit of memory. One huge allocation fails at once, since the kernel bounds the
// address space (RLIMIT_AS, on Linux). The parent kills a worker if its chart is not rendered in time. The time counts
// against the chart only if the worker was busy, and not if it has waited for the target. Workers have a low priority.
//
// # The end
//
// When the context of a request ends, the worker's standard input is closed, and that ends the context in there; the
// worker is killed if its end takes too long. Its release is then left in Helm's state of that moment; see
// helm.Request.Interrupted.
//
// # Logs and errors
//
// Standard error of a worker goes to the log at level debug, without messages of panics and without package log: Helm
// prints values with it; see helm.ReasonChart for its warnings there. Errors of this package name a release, a limit
// and the end of the process, and never repeat its output.
package worker
