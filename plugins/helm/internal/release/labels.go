package release

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

const (
	// ItemLabel names the deploy item of a release, with the same value as on the objects of the item.
	ItemLabel = owner.Label
	// InstallationLabel names the installation of the deploy item.
	InstallationLabel = owner.InstallationAnnotation
	// InputLabel has the input of a revision: "<revision>-<digest>".
	InputLabel = "pergola.dev/input"
	// ChildrenLabel has, in the same form, the objects in place of the rendered ones.
	ChildrenLabel = "pergola.dev/children"
	// JobLabel has, in the same form, the job of a revision.
	JobLabel = "pergola.dev/job"
	// BequeathedAnnotation names the former deploy item, with the value of its label, of a revision that went to
	// another one without a change. Helm drops it with the next write of the revision.
	BequeathedAnnotation = "pergola.dev/bequeathed-by"
)

// RolledBack stands for the digest in the Labels of a rollback: the revision after a failed atomic upgrade. It is the
// digest of no input. Helm itself adds no such labels, and without them the rollback would look like one of another
// client.
const RolledBack = "rolledback"

// Input returns the digest of the input of a revision: lists of different parts have different digests. It is short
// enough for Labels.
func Input(parts ...[]byte) string {
	all := sha256.New()
	for _, part := range parts {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		all.Write(length[:]) // a hash never fails
		all.Write(part)
	}
	return hex.EncodeToString(all.Sum(nil)[:16])
}

// Labels returns the labels of a new revision for a deploy item, given by the value of the label on its objects; see
// Decision.Revision.
func Labels(item string, revision int, digest string) map[string]string {
	return map[string]string{ItemLabel: item, InputLabel: strconv.Itoa(revision) + "-" + digest}
}

// Labels returns the labels of a new revision for the wanted release.
func (w Want) Labels(revision int) map[string]string {
	labels := Labels(w.Item, revision, w.Input)
	if w.Installation != "" {
		labels[InstallationLabel] = w.Installation
	}
	if w.Children != "" {
		labels[ChildrenLabel] = strconv.Itoa(revision) + "-" + w.Children
	}
	if w.Job != "" {
		labels[JobLabel] = strconv.Itoa(revision) + "-" + w.Job
	}
	return labels
}

// RollbackLabels returns the labels of the rollback of a failed atomic upgrade.
func (w Want) RollbackLabels(revision int) map[string]string {
	w.Input, w.Children = RolledBack, ""
	return w.Labels(revision)
}

// digestOf returns the digest in a label of a revision; empty without one, or for a copy from another revision.
func digestOf(labels map[string]string, label string, revision int) string {
	digest, ok := strings.CutPrefix(labels[label], strconv.Itoa(revision)+"-")
	if !ok {
		return ""
	}
	return digest
}
