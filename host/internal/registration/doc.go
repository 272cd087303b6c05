// Package registration keeps the HTTP hooks that DeployerRegistrations name ready to be called, and says in their statuses what has
// become of them.
//
// Every replica does so for itself; the elected one writes the statuses. A type of deploy items has one hook: where several
// registrations with a hook name a type, the oldest is in force for it, and the others say so. Registrations without a hook take no
// type from anybody.
//
// What is registered is never passed over: as long as the hook of a type cannot be called, because its registration is wrong, its
// address does not resolve or a secret is missing, the type has no hook but an error, and its items have to wait.
//
// A hook is made of its registration, of the object that has its address and of secrets. Each of these objects is watched by its name,
// which takes no more than the right to do that with this one object. All of them are read anew every 30 seconds as well, so that a
// watch that is not allowed, or broken, costs time only. Secrets are in memory and nowhere else.
package registration
