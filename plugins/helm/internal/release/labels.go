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
	// ItemLabel says to which deploy item a release belongs. Its value is that of the label on the objects of the
	// item.
	ItemLabel = owner.Label
	// InstallationLabel is beside it, and says of which installation the deploy item is.
	InstallationLabel = owner.InstallationAnnotation
	// InputLabel says what a revision was made from: "<revision>-<digest>".
	InputLabel = "pergola.dev/input"
	// ChildrenLabel says, in the same form, which objects have taken the place of those that the chart was rendered
	// to.
	ChildrenLabel = "pergola.dev/children"
	// JobLabel says, in the same form, which job has made a revision.
	JobLabel = "pergola.dev/job"
)

// RolledBack stands for the digest in the Labels of the revision that a failed atomic upgrade is rolled back with,
// the one after the upgrade's. It is the digest of no input. Without such labels, which Helm does not put there by
// itself, the rollback would seem to be somebody else's.
const RolledBack = "rolledback"

// Input returns the digest of what decides on a revision: two lists of parts have the same one only if they are the
// same. It is short enough for Labels.
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

// Labels returns the labels of a revision that is about to be made for a deploy item, which is named by the value
// of the label on its objects; see Decision.Revision.
func Labels(item string, revision int, digest string) map[string]string {
	return map[string]string{ItemLabel: item, InputLabel: strconv.Itoa(revision) + "-" + digest}
}

// Labels returns the labels of the revision that is about to be made for what is wanted.
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

// RollbackLabels returns the labels of the revision that a failed atomic upgrade is rolled back with.
func (w Want) RollbackLabels(revision int) map[string]string {
	w.Input, w.Children = RolledBack, ""
	return w.Labels(revision)
}

// digestOf returns the digest in a label of a revision; empty if there is none, or it was copied from another
// revision.
func digestOf(labels map[string]string, label string, revision int) string {
	digest, ok := strings.CutPrefix(labels[label], strconv.Itoa(revision)+"-")
	if !ok {
		return ""
	}
	return digest
}
