package contract

// Path is the way of a job through its steps.
type Path string

// The paths of a job.
const (
	// OnlyWrite: one write ends the job.
	OnlyWrite Path = "only a write"
	// WithPlugin: the plugin is called.
	WithPlugin Path = "with the plugin"
	// DeleteWithoutPlugin: the item has no finalizer, and so never reached a deployer, or its user wants to keep the
	// deployed objects.
	DeleteWithoutPlugin Path = "delete without the plugin"
	// AbortWithoutPlugin: the plugin has no Abort, and its running call is cancelled already.
	AbortWithoutPlugin Path = "abort without the plugin"
)

// PathOf returns the path of a job.
func PathOf(d Decision, canAbort, hasFinalizer bool) Path {
	switch {
	case d.EndsJob(), d.Action == SucceedUnchanged:
		return OnlyWrite
	case d.Action == Abort && !canAbort:
		return AbortWithoutPlugin
	case d.Action == Abort:
		return WithPlugin
	case d.Deletion && (!hasFinalizer || d.LeaveBehind):
		return DeleteWithoutPlugin
	default:
		return WithPlugin
	}
}
