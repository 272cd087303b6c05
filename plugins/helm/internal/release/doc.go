// Package release reads a Helm release from its Secrets and decides on the next operation. It does without the Helm
// library, so a job with an up-to-date release needs none.
//
// # What is stored
//
// Each revision of a release is a Secret in the release's namespace. Its labels have the status, its content has the
// rest. History reads the labels of all revisions with one request, Read the content of one revision with another.
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
// Decide compares the newest revision with the wanted state:
//
//	newest revision                                     decision
//	none                                                Install
//	uninstalled, its history is kept                    Install; for any former owner
//	any other, of no deploy item and another chart      Conflict, or as below if the release is to be taken over
//	any other, of another deploy item                   Conflict, or as below if the release is to be taken over
//	any other, of an item of the name elsewhere         Conflict, or as below if it may be taken from there
//	deployed, Pergola's, of the wanted input and        Nothing, unless it is forced or something has drifted
//	with the wanted children
//	deployed, otherwise                                 Upgrade: the work of another client is adopted, or undone
//	failed, superseded                                  Upgrade, or Install if none was ever deployed
//	pending-*, uninstalling, unknown: Pergola's         the same, the revision is interrupted
//	pending-*, uninstalling, unknown: another client's  Wait; after the grace period as for Pergola's
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
//	newest revision                                     decision
//	none                                                Nothing
//	of another deploy item                              Leave
//	of none, and the deploy item has no claim to it     Leave
//	of none, uninstalled                                Nothing
//	in progress, another client's                       Wait, within the grace period
//	any other                                           Uninstall
//
// Uninstall also removes a kept history; a revision in progress is interrupted.
package release
