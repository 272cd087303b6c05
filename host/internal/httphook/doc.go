// Package httphook knows and calls the HTTP hooks of DeployerRegistrations, by the Hooks API v1 of TriggerMesh Scoby: a
// POST of a deploy item and its desired objects, whose answer may change the objects and report conditions.
//
// Where the API's prose and the only known servers differ, this package does what works with the servers: formFactor is
// an object with a name, and permanent means that the request is not to be repeated.
//
// A server is not trusted beyond that. It can neither add, drop nor rename an object, nor change an item but by the
// conditions that its registration declares; its answers are bounded, and a redirect leads nowhere but to itself.
// Requests go straight to the address, whatever proxy the environment names: a hook sees secrets, and belongs to the
// cluster. A request may come more than once, and its answer may be lost: servers must be idempotent.
//
// Every replica reconciles the DeployerRegistrations for itself; the elected one writes their statuses. A type of
// deploy items has one hook, that of the oldest registration that names it. What is registered is never skipped: as
// long as the hook of a type cannot be called, the type has an error, and its items wait.
package httphook
