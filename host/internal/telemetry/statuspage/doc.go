// Package statuspage shows one replica of a host in a browser: its plugins, the queues for their workers, its locks,
// the DeployItems under way with the causes of their waits, and the last errors. It is read-only and off by default.
//
// # Content
//
//	GET /             the page
//	GET /status.json  the page as a Status
//	GET /style.css    the only resource of the page
//
// Pages have no scripts, and headers to forbid any. They load nothing from elsewhere and are in no other page's frame.
//
// # Access
//
// There is no login: all clients with access to the port may read. The page has only content of the status of
// DeployItems, the log and /readyz, and nothing from Secrets, contents of Targets or configurations; texts of plugins
// are shown unchanged. It is about all namespaces. So the address is empty by default, and the chart's NetworkPolicy
// admits no client; "kubectl port-forward" works.
//
// Only some host names are valid, because of DNS rebinding: see telemetry.HostNames.
package statuspage
