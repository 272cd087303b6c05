package lscontext

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// ChartRepositoriesKey is the configuration of a Context with credentials for chart repositories.
	ChartRepositoriesKey = "helmChartRepoCredentials"
	// defaultHeaderKey is the default key of a Secret with the header.
	defaultHeaderKey = "authHeader"
	// maxHeader bounds a header; servers take less.
	maxHeader = 16 << 10
)

// repository is one of auths.
type repository struct {
	URL          string `json:"url"`
	CustomCAData string `json:"customCAData"`
	AuthHeader   string `json:"authHeader"`
	SecretRef    *struct {
		Name string `json:"name"`
		Key  string `json:"key"`
	} `json:"secretRef"`
}

// SecretsOf returns the names of the Secrets with credentials, of its own namespace, in a Context. Unreadable parts
// name none.
func SecretsOf(lsContext *v1alpha1.Context) []string {
	var names []string
	for _, ref := range lsContext.RegistryPullSecrets[:min(len(lsContext.RegistryPullSecrets), maxEntries)] {
		names = append(names, ref.Name)
	}
	var parsed struct {
		Auths []repository `json:"auths"`
	}
	if json.Unmarshal(lsContext.Configurations[ChartRepositoriesKey].Raw, &parsed) == nil {
		for _, entry := range parsed.Auths[:min(len(parsed.Auths), maxEntries)] {
			if entry.SecretRef != nil {
				names = append(names, entry.SecretRef.Name)
			}
		}
	}
	return slices.DeleteFunc(names, func(name string) bool { return len(validation.IsDNS1123Subdomain(name)) > 0 })
}

// chartRepositories resolves the configuration helmChartRepoCredentials.
func (r *credentialReader) chartRepositories(
	ctx context.Context, configurations map[string]runtime.RawExtension,
) ([]sdk.ChartRepositoryCredentials, error) {
	const root = "configurations." + ChartRepositoriesKey
	document := configurations[ChartRepositoriesKey].Raw
	if len(document) == 0 {
		return nil, nil
	}
	var parsed struct {
		Auths []json.RawMessage `json:"auths"`
	}
	if err := json.Unmarshal(document, &parsed); err != nil {
		return []sdk.ChartRepositoryCredentials{{Problem: r.unreadable(err, root).Error()}}, nil
	}
	var entries []sdk.ChartRepositoryCredentials
	for i, raw := range parsed.Auths {
		if i == maxEntries {
			problem := r.tooMany(root+".auths", len(parsed.Auths))
			return append(entries, sdk.ChartRepositoryCredentials{Problem: problem}), nil
		}
		entry, err := r.chartRepository(ctx, indexed(root+".auths", i), raw)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// unreadable is the error for JSON of the wrong form.
func (r *credentialReader) unreadable(err error, field string) error {
	path, sentence := mismatch(err, field)
	return r.wrong(path, "%s; correct it", sentence)
}

// chartRepository resolves one entry. Its first fault is its problem.
func (r *credentialReader) chartRepository(
	ctx context.Context, field string, raw []byte,
) (sdk.ChartRepositoryCredentials, error) {
	var parsed repository
	var entry sdk.ChartRepositoryCredentials
	var authorities []byte
	var header string
	err := json.Unmarshal(raw, &parsed)
	if err != nil {
		err = r.unreadable(err, field)
	} else if entry.URL, err = checkAddress(parsed.URL); err != nil {
		err = r.wrong(field+".url", "%w", err)
	} else if authorities, err = Certificates(parsed.CustomCAData); err != nil {
		err = r.wrong(field+".customCAData", "%w", err)
	} else if header, err = r.header(ctx, field, &parsed); err == nil {
		err = r.spend(field, len(authorities)+len(header))
	}
	if err == nil {
		entry.CAData, entry.AuthHeader = authorities, header
	}
	entry.Problem, err = told(err)
	return entry, err
}

// header returns the header of an entry, empty if it has none.
func (r *credentialReader) header(ctx context.Context, field string, of *repository) (header string, err error) {
	switch {
	case of.AuthHeader != "" && of.SecretRef != nil:
		return "", r.wrong(field, "has both authHeader and secretRef; remove one of them")
	case of.SecretRef == nil:
		if header, err = checkHeader(of.AuthHeader); err != nil {
			return "", r.wrong(field+".authHeader", "%w", err)
		}
		return header, nil
	}
	field += ".secretRef"
	err = r.secret(ctx, field, of.SecretRef.Name, func(secret *corev1.Secret) (err error) {
		key := cmp.Or(of.SecretRef.Key, defaultHeaderKey)
		value, ok := secret.Data[key]
		if !ok {
			return fmt.Errorf("has no key %q; add it, or correct %s.key", cut(key), field)
		}
		header, err = checkHeader(string(value))
		if err == nil && header == "" {
			err = errors.New("is empty; put the value of the header Authorization into it")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", cut(key), err)
		}
		return nil
	})
	return header, err
}

// checkHeader returns a value fit for a header, without the end of line of files.
func checkHeader(value string) (string, error) {
	header := strings.TrimSpace(value)
	switch {
	case !utf8.ValidString(header):
		return "", errors.New("is not UTF-8; expected the value of the header Authorization")
	case len(header) > maxHeader:
		return "", fmt.Errorf("has %d bytes; at most %d are allowed", len(header), maxHeader)
	case strings.ContainsFunc(header, func(c rune) bool { return c < ' ' && c != '\t' || c == '\x7f' }):
		return "", errors.New("has a control character, such as an end of line; remove it")
	}
	return header, nil
}

// checkAddress returns the address of a repository, unless it may hold a password: anywhere in an invalid address.
func checkAddress(text string) (string, error) {
	parsed, err := url.Parse(text)
	switch {
	case text == "":
		return "", errors.New("is missing; set it to the URL of the repository")
	case err != nil:
		return "", errors.New("is no URL; expected one such as https://charts.example.org")
	case parsed.User != nil:
		parsed.User = nil
		return parsed.String(), errors.New("has a user in it; put the credentials into authHeader or secretRef")
	case parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Hostname() == "":
		return "", errors.New("expected https:// or http:// and a host")
	}
	return text, nil
}

// WithoutCredentials returns a Context without credentials of its own: the configuration of chart repositories may have
// a header in it, and so has kubectl's copy of the applied object. A Context without that configuration is returned as
// it is.
func WithoutCredentials(lsContext *v1alpha1.Context) *v1alpha1.Context {
	if _, ok := lsContext.Configurations[ChartRepositoriesKey]; !ok {
		return lsContext
	}
	stripped := lsContext.DeepCopy()
	delete(stripped.Configurations, ChartRepositoriesKey)
	delete(stripped.Annotations, corev1.LastAppliedConfigAnnotation)
	return stripped
}
