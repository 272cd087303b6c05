// Package scenarios runs scenario files: what a deployer does with its objects, as users see it.
//
// A file is a script of package testscript with the commands below; `go test -update` writes what a command printed
// into the file which `cmp stdout` compares it with. The files in testdata are the contract of all deployers of
// objects, in each of their modes; a deployer's own are beside its tests. `[MODE]` before a line is for one mode
// alone, and `[!MODE]` for the others. In files and arguments $NS is the namespace of the scenario, and in what
// is printed it is NS.
//
// The deploy item:
//
//	item NAME               goes on with another deploy item; the first is "item"
//	objects FILE [FIELDS]   sets the configuration: the objects of FILE, and more of its fields
//	config FILE             sets the whole configuration; "none" for none
//	annotate KEY VALUE      sets an annotation of the item
//	forget                  removes its provider status
//
// Its jobs. Each prints the end of its last call, exports, conditions and events:
//
//	job [-hook] [-once]     carries out a new job, -hook one of a schedule; -once makes one call
//	job -try [-once]        carries out another try of the last job, which has failed
//	retry [-once]           goes on with the job
//	delete-item [-once]     deletes the item
//	health                  prints whether what is deployed is healthy
//	diff                    prints the changes by the next job
//
// What is around:
//
//	restart                 replaces the deployer's process by a new one
//	configure FILE          sets fields of the deployer's configuration
//	target none|unreachable|unauthorized|cluster   sets the Target
//	move-away, move-back    has the provider status name another cluster, or the Target's again
//	installation NAME       sets the name of the installation
//	inventory, drift        print that part of the provider status
//	fail VERB NAME          lets requests for an object fail; without arguments none
//	requests, writes        print the requests since the last of these commands
//
// The target cluster, behind the deployer's back:
//
//	create FILE             creates objects
//	patch KINDS NAME PATCH [SUBRESOURCE]
//	own KINDS OWNER NAME    has an object own another one of its kind
//	remove KINDS NAME       deletes an object and its dependents
//	ready NAME              gives a Deployment the status of a ready one
//	complete NAME [failed]  gives a Job the status of a complete or a failed one
//	get KINDS NAME [PATH]   prints an object's field; "none" without the object
//	revisions               prints Helm's revisions in the namespace, as in "1 deployed"
//	names KINDS             prints the names of all objects
package scenarios
