// Package release knows what Helm stores about a release, and decides what is to be done about it. It does without
// the Helm library, so that a job that finds its release as it should be needs none.
//
// # What is stored
//
// Each revision of a release is a Secret in the release's namespace, whose labels tell its status, and whose
// content tells the rest. History reads the labels of all revisions with one request, Read the content of one
// revision with another.
//
// Helm puts labels of the caller beside its own. A revision that Pergola has made says with them to which deploy
// item it belongs, and what it was made from: its number and a digest, see Labels, and a second one if an HTTP hook
// has changed its objects. The number is there because Helm copies the labels of a revision to those that it makes
// from it, in an upgrade as in a rollback, whoever asks for it. So the label of the input counts only on the
// revision that it names, and such a revision is called Pergola's here. The label of the deploy item counts as long
// as it is there: the release belongs to the item whatever else is done to it. The rollback of a failed atomic
// upgrade gets labels of its own, see RolledBack.
//
// # What is to be done
//
// Decide looks at the newest revision, and at what is wanted:
//
//	newest revision                                     decision
//	none                                                Install
//	uninstalled, its history is kept                    Install; whoever it belonged to
//	any other, of no deploy item and another chart      Conflict, or as below if the release is to be taken over
//	any other, of another deploy item                   Conflict, or as below if the release is to be taken over
//	any other, of an item of the name elsewhere         Conflict, or as below if it may be taken from there
//	deployed, Pergola's, of the wanted input and        Nothing, unless it is forced or something has drifted
//	with the wanted children
//	deployed, otherwise                                 Upgrade: what others have deployed is adopted, or undone
//	failed, superseded                                  Upgrade, or Install if none was ever deployed
//	pending-*, uninstalling, unknown: Pergola's         the same, the revision is interrupted
//	pending-*, uninstalling, unknown: somebody else's   Wait; after the grace period the same, the revision is interrupted
//
// Nobody works on a revision of Pergola's that is in progress: the host never has two calls for one deploy item at
// once, and what the one before has left to a process of its own has ended with it. On somebody else's revision he
// may well be working, and is let alone until it has not changed for the grace period. An older revision that is in
// progress was left so by somebody who went on from there, so nobody works on it either. Whatever is interrupted
// has to be marked as failed before Helm does anything else; it refuses otherwise.
//
// A release that was never deployed is installed again, with its hooks for that, as if there had been no attempt:
// "helm upgrade --install" would upgrade it and report success although what those hooks do was never done, and
// nobody is there to see that the first attempt had failed. The attempts stay in the history as failed; so
// superseded are only revisions that were deployed.
//
// Among several revisions that are deployed the newest counts, as for Helm. A rollback with the Helm CLI is undone
// by the next job, because the new revision is not Pergola's; so is an upgrade. Who wants another state to last has
// to change the deploy item.
//
// DecideRemoval is for the deletion of a deploy item:
//
//	newest revision                                     decision
//	none                                                Nothing
//	of another deploy item                              Leave
//	of none, and the deploy item has no claim to it     Leave
//	of none, uninstalled                                Nothing
//	in progress, somebody else's                        Wait, within the grace period
//	any other                                           Uninstall
//
// Uninstall removes a history that was kept as well, and what is in progress is interrupted.
package release
