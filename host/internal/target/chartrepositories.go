package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// ChartRepositoriesKey is the configuration of a Context with credentials for chart repositories.
	ChartRepositoriesKey = "helmChartRepoCredentials"
	// defaultHeaderKey is the key of a Secret that holds the header, if nobody names another one.
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
		wrong := mismatch(err, root)
		problem := r.problem(wrong.Field, "%s; correct it", wrong.Message)
		return []sdk.ChartRepositoryCredentials{{Problem: problem}}, nil
	}
	var entries []sdk.ChartRepositoryCredentials
	for i, raw := range parsed.Auths {
		if i == maxEntries {
			rest := sdk.ChartRepositoryCredentials{Problem: r.problemOfRest(root+".auths", len(parsed.Auths))}
			return append(entries, rest), nil
		}
		entry, err := r.chartRepository(ctx, fmt.Sprintf("%s.auths[%d]", root, i), raw)
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry)
	}
	return entries, nil
}

// chartRepository resolves one entry. The first thing that is wrong with it is told.
func (r *credentialReader) chartRepository(
	ctx context.Context, field string, raw []byte,
) (sdk.ChartRepositoryCredentials, error) {
	var parsed repository
	if err := json.Unmarshal(raw, &parsed); err != nil {
		wrong := mismatch(err, field)
		return sdk.ChartRepositoryCredentials{Problem: r.problem(wrong.Field, "%s; correct it", wrong.Message)}, nil
	}
	address, problem := checkAddress(parsed.URL)
	wrong := func(problem string) (sdk.ChartRepositoryCredentials, error) {
		return sdk.ChartRepositoryCredentials{URL: address, Problem: problem}, nil
	}
	if problem != "" {
		return wrong(r.problem(field+".url", "%s", problem))
	}
	authorities, problem := certificates(parsed.CustomCAData)
	if problem != "" {
		return wrong(r.problem(field+".customCAData", "%s", problem))
	}
	header, problem, err := r.header(ctx, field, &parsed)
	if err != nil {
		return sdk.ChartRepositoryCredentials{}, err
	}
	if problem == "" {
		problem = r.spend(field, len(authorities)+len(header))
	}
	if problem != "" {
		return wrong(problem)
	}
	return sdk.ChartRepositoryCredentials{URL: address, CAData: authorities, AuthHeader: header}, nil
}

// header returns the header of an entry, empty if it has none, or what is wrong with it.
func (r *credentialReader) header(
	ctx context.Context, field string, of *repository,
) (header, problem string, err error) {
	switch {
	case of.AuthHeader != "" && of.SecretRef != nil:
		return "", r.problem(field, "has both authHeader and secretRef; remove one of them"), nil
	case of.SecretRef == nil:
		header, problem = checkHeader(of.AuthHeader)
		if problem != "" {
			return "", r.problem(field+".authHeader", "%s", problem), nil
		}
		return header, "", nil
	}
	key := of.SecretRef.Key
	if key == "" {
		key = defaultHeaderKey
	}
	field += ".secretRef"
	problem, err = r.secret(ctx, field, of.SecretRef.Name, func(secret *corev1.Secret) (what string) {
		value, ok := secret.Data[key]
		if !ok {
			return r.problemOfSecret(field, of.SecretRef.Name, "has no key %q; add it, or correct %s.key", cut(key), field)
		}
		if header, what = checkHeader(string(value)); what == "" && header == "" {
			what = "is empty; put the value of the header Authorization into it"
		}
		if what != "" {
			return r.problemOfSecret(field, of.SecretRef.Name, "%s: %s", cut(key), what)
		}
		return ""
	})
	if problem != "" || err != nil {
		return "", problem, err
	}
	return header, "", nil
}

// checkHeader returns a value that can be sent in a header, without the end of line that files have, or what is wrong
// with it.
func checkHeader(value string) (header, problem string) {
	header = strings.TrimSpace(value)
	if !utf8.ValidString(header) {
		return "", "is not UTF-8; expected the value of the header Authorization"
	}
	if len(header) > maxHeader {
		return "", fmt.Sprintf("has %d bytes; at most %d are allowed", len(header), maxHeader)
	}
	if strings.ContainsFunc(header, func(c rune) bool { return c < ' ' && c != '\t' || c == '\x7f' }) {
		return "", "has a control character, such as an end of line, which no header can have; remove it"
	}
	return header, ""
}

// checkAddress returns the address of a repository, or what is wrong with it. It may have a password in it, and then is
// not told; what is no address may as well have one somewhere.
func checkAddress(text string) (address, problem string) {
	if text == "" {
		return "", "is missing; it says which repository the credentials are for"
	}
	parsed, err := url.Parse(text)
	if err != nil {
		return "", "is no URL; expected one such as https://charts.example.org"
	}
	if parsed.User != nil {
		parsed.User = nil
		return parsed.String(), "has a user in it; put the credentials into authHeader or secretRef"
	}
	if parsed.Scheme != "https" && parsed.Scheme != "http" || parsed.Hostname() == "" {
		return "", "expected https:// or http:// and a host"
	}
	return text, ""
}

// WithoutCredentials returns a Context that holds no credentials itself: the configuration of chart repositories may
// have a header in it, and so has the copy of the object in which kubectl keeps what was applied. A Context without
// that configuration is returned as it is.
func WithoutCredentials(lsContext *v1alpha1.Context) *v1alpha1.Context {
	if _, ok := lsContext.Configurations[ChartRepositoriesKey]; !ok {
		return lsContext
	}
	stripped := lsContext.DeepCopy()
	delete(stripped.Configurations, ChartRepositoriesKey)
	delete(stripped.Annotations, corev1.LastAppliedConfigAnnotation)
	return stripped
}
