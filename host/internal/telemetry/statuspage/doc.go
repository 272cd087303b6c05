// Package statuspage shows people one replica of a host in a browser: its plugins, what waits for their
// workers, the locks that it holds, the DeployItems under way with what they wait for, and the last errors. It is
// read-only and off by default.
//
// # What is served
//
//	GET /             the page
//	GET /status.json  the page as a Status
//	GET /style.css    the only thing that a page loads
//
// Pages have no scripts, and headers that forbid any. They load nothing from elsewhere and are in no other page's
// frame.
//
// # Who may read it
//
// Whoever reaches the port: there is no login. What is shown is what the status of DeployItems, the log and /readyz
// show as well, and nothing that the host has from Secrets, Targets' contents or configurations; what plugins say is
// shown as they say it. It is of all namespaces. So the address is empty by default, and the chart's NetworkPolicy
// lets nobody in; "kubectl port-forward" does.
//
// A page of somebody else's in the browser of a person who may read it can make a name of its own lead to this port,
// and so read what is served (DNS rebinding). Therefore requests are answered only under names that nobody else can
// make lead here: see telemetry.HostNames.
package statuspage
