// Package httphook knows and calls the HTTP hooks of DeployerRegistrations, by the Hooks API v1 of TriggerMesh Scoby: a
// POST of a deploy item and its desired objects. The answer may change the objects and report conditions.
//
// Where the API's prose and the only known servers differ, this package follows the servers: formFactor is an object
// with a name, and permanent means that the request is not to be repeated.
//
// A server is not trusted beyond that. It can neither add, drop nor rename an object, nor change an item but by the
// conditions declared in its registration; its answers are bounded, and a redirect leads nowhere but to itself.
// Requests go straight to the address, without the proxy of the environment: a hook sees secrets, and belongs to the
// cluster. A request may come more than once, and its answer may be lost: servers must be idempotent.
//
// Every replica reconciles the DeployerRegistrations for itself; the elected one writes their statuses. A type of
// deploy items has one hook, that of its oldest registration. A registered hook is never skipped: as long as it cannot
// be called, its types have an error, and their items wait.
package httphook
