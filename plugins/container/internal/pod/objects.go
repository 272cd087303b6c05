package pod

import (
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
)

// inputKey is the key of a chunk of the input in its Secret.
const inputKey = "chunk"

// Object is one of a Pod's other objects, with its apiVersion and kind.
type Object interface {
	metav1.Object
	runtime.Object
}

// ServiceAccount returns the ServiceAccount of the wait container. No other container has its token.
func (i Identity) ServiceAccount() *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: rbacv1.ServiceAccountKind},
		ObjectMeta: i.meta(i.RunName(), PartRights), AutomountServiceAccountToken: new(false),
	}
}

// Role returns the right to write the Secrets of an upload, existing or not, and nothing else. Server-side apply
// needs the right to create a missing object, and the API server checks it with the applied name.
func (i Identity) Role(u *layout.Upload) *rbacv1.Role {
	return &rbacv1.Role{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"},
		ObjectMeta: i.meta(i.RunName(), PartRights),
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"create", "patch"},
			ResourceNames: append([]string{u.Result}, u.State...),
		}},
	}
}

// RoleBinding returns the binding of the Role to the ServiceAccount.
func (i Identity) RoleBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: i.meta(i.RunName(), PartRights),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: i.RunName()},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: i.PodNamespace, Name: i.RunName()}},
	}
}

// Upload returns the instructions for the wait container. stateBytes and exportBytes bound its uploads.
func (i Identity) Upload(stateBytes, exportBytes int64) *layout.Upload {
	u := &layout.Upload{
		Namespace: i.PodNamespace, Result: ResultName(i.RunName()), MaxExportBytes: exportBytes,
		ResultLabels: i.Labels(PartResult), StateLabels: i.Labels(PartState),
		ResultAnnotations: i.Annotations(), StateAnnotations: i.Annotations(),
	}
	u.StateAnnotations[StateIDAnnotation] = i.RunName()
	chunks := (stateBytes + layout.ChunkBytes - 1) / layout.ChunkBytes
	u.State = StateNames(&v1alpha1.State{ID: i.RunName(), Chunks: int(chunks)})
	return u
}

// Access returns the Secret with everything the wait container needs for its uploads.
func (i Identity) Access(u *layout.Upload, token string) (*corev1.Secret, error) {
	document, err := json.Marshal(u)
	if err != nil {
		return nil, fmt.Errorf("write the instructions for the upload: %w", err)
	}
	data := map[string][]byte{layout.TokenFile: []byte(token), layout.UploadFile: document}
	return i.secret(accessName(i.RunName()), PartAccess, data), nil
}

// Result returns the Secret of the result in its empty form: it can be watched before the upload.
func (i Identity) Result() *corev1.Secret { return i.secret(ResultName(i.RunName()), PartResult, nil) }

// Inputs returns the Secrets with the chunks of the init container's archive.
func (i Identity) Inputs(chunks [][]byte) []Object {
	secrets := make([]Object, 0, len(chunks))
	for number, chunk := range chunks {
		data := map[string][]byte{inputKey: chunk}
		secrets = append(secrets, i.secret(inputName(i.RunName(), number), PartInput, data))
	}
	return secrets
}

// OldState returns Secrets with the chunks of a state in another place. They go with the run.
func (i Identity) OldState(chunks [][]byte) []Object {
	secrets := make([]Object, 0, len(chunks))
	for number, chunk := range chunks {
		data := map[string][]byte{layout.ChunkKey: chunk}
		secrets = append(secrets, i.secret(oldStateName(i.RunName(), number), PartInput, data))
	}
	return secrets
}

// StateNames returns the names of the Secrets of a state, in the order of their chunks.
func StateNames(s *v1alpha1.State) []string {
	if len(s.Secrets) > 0 {
		return s.Secrets
	}
	names := make([]string, 0, s.Chunks)
	for number := range s.Chunks {
		names = append(names, stateName(s.ID, number))
	}
	return names
}

// Pull returns the Secret with the credentials for the registries of images.
func (i Identity) Pull(dockerConfig []byte) *corev1.Secret {
	secret := i.secret(pullName(i.RunName()), PartPull, map[string][]byte{corev1.DockerConfigJsonKey: dockerConfig})
	secret.Type = corev1.SecretTypeDockerConfigJson
	return secret
}

func (i Identity) secret(name, part string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1.SchemeGroupVersion.String(), Kind: "Secret"},
		ObjectMeta: i.meta(name, part), Type: corev1.SecretTypeOpaque, Data: data,
	}
}

func (i Identity) meta(name, part string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: i.PodNamespace, Name: name, Labels: i.Labels(part), Annotations: i.Annotations(),
	}
}
