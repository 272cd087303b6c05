package session

import "errors"

var (
	// ErrNotRunning reports that the plugin is not running, or that its process ended during the call for another reason
	// than the call. Its supervisor starts it again.
	ErrNotRunning = errors.New("the plugin is not running")
	// ErrUnhealthy accompanies ErrNotRunning: the host has killed the process during the call because of another one.
	ErrUnhealthy = errors.New("its process was unhealthy and was killed")
	// ErrCrashed reports that the process ended during the call, or was killed, possibly because of the call.
	ErrCrashed = errors.New("the plugin ended in the middle of a call")
	// ErrBeside accompanies ErrCrashed: each of several calls under way may be the cause.
	ErrBeside = errors.New("beside other calls")
	// ErrInterrupted is the cause of a caller's cancellation without interest in the result. The plugin gets less time to
	// stop than usual.
	ErrInterrupted = errors.New("the call was interrupted")
	// ErrProtocol reports that the plugin broke the rules of the protocol.
	ErrProtocol = errors.New("the plugin broke the protocol")
	// ErrEnded reports that the process ended by itself.
	ErrEnded = errors.New("its process ended")
)
