// Package release reads a Helm release from its Secrets and decides on the next operation. It does without the Helm
// library, so a job with an up-to-date release needs none.
//
// # What is stored
//
// Each revision of a release is a Secret in the release's namespace. Its labels have the status, its content has the
// rest. History reads the labels of all revisions with one request, Read the content of one revision with another.
// Its manifest is the one YAML of charts parsed outside of a worker, so that an unchanged release needs no process. A
// worker has parsed the manifest of each revision of Pergola's before, with the same helm.ParseManifest; for others,
// too, that one bounds each document, and Read takes one large manifest at a time.
//
// Helm adds labels of the caller to its own. Those of Pergola name the deploy item of the revision and its input: the
// revision's number and a digest, see Labels. There is a second digest if an HTTP hook has changed the objects. The
// number is needed because Helm copies the labels of a revision to later ones, in an upgrade as in a rollback, by any
// client. So the label of the input counts only on the revision with its number; such a revision is called Pergola's
// here. The label of the deploy item counts as long as it is there: the release belongs to the item in spite of any
// operation of another client. The rollback of a failed atomic upgrade gets its own labels, see RolledBack.
//
// # What is to be done
//
// Decide finds the state of the release, the first one of the table to fit, and each state has its decision:
//
//	state          meaning                                                         decision
//	absent         there is no revision                                            Install
//	uninstalled    the newest revision is, with any former owner; history is kept  Install
//	foreign        of another item, or of one of the name in another installation  Conflict
//	otherChart     of no item, and of another chart                                Conflict
//	busy           in progress by another client, within the grace period          Wait
//	neverDeployed  no installation has succeeded                                   Install
//	interrupted    the newest revision is in progress without a process            Upgrade
//	failed         the newest revision is failed or superseded                     Upgrade
//	taken          deployed for another item, and to be taken over                 Upgrade
//	unowned        deployed, of no item                                            Upgrade
//	changed        deployed by another client: its work is adopted, or undone      Upgrade
//	reverted       deployed by the rollback of a failed atomic upgrade             Upgrade
//	outdated       deployed with another input                                     Upgrade
//	otherChildren  deployed with other objects of an HTTP hook                     Upgrade
//	forced         up to date, and another revision is wanted in any case          Upgrade
//	drifted        up to date, but objects have changed                            Upgrade
//	current        up to date                                                      Nothing
//
// A permission to take the release over rules out foreign, and for a release of no item otherChart.
//
// No process works on a revision of Pergola's in progress: the host never has two calls for one deploy item at once,
// and the processes of an earlier call have ended with it. Another client may still work on its own revision, and
// gets the grace period since the last change of it. An older revision in progress was left so by a client with a
// newer one, so no process works on it either. All interrupted revisions have to be marked as failed first; otherwise
// Helm refuses any other operation.
//
// A release without a deployed revision is installed again, with its hooks for an installation, as if there had been
// no attempt. "helm upgrade --install" would upgrade it and report success without the work of those hooks, and no
// user would notice the failure of the first attempt. The attempts stay in the history as failed; so only deployed
// revisions become superseded.
//
// Among several deployed revisions the newest counts, as for Helm. The next job undoes a rollback with the Helm CLI,
// because the new revision is not Pergola's; the same goes for an upgrade. For a lasting change the deploy item has
// to change.
//
// DecideRemoval is for the deletion of a deploy item:
//
//	state        meaning                                                          decision
//	absent       there is no revision                                             Nothing
//	foreign      of another item, or of one of the name in another installation   Leave
//	unowned      of no item, and this one has no claim to it                      Leave
//	uninstalled  of no item, its history is kept                                  Nothing
//	busy         in progress by another client, within the grace period           Wait
//	claimed      of a settled deployment that a living item with the same chart   Bequeath
//	             needs
//	owned        any other                                                        Uninstall
//
// Uninstall also removes a kept history; a revision in progress is interrupted.
package release
