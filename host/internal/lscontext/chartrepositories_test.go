package lscontext

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk"
)

func TestChartRepository(t *testing.T) {
	t.Parallel()
	certificate, key := newAuthority().certificate, newAuthority().key
	const address = "https://charts.example.org/stable"
	entry := func(fields string) string { return `{"url":"` + address + `"` + fields + `}` }
	ca := func(text string) string { return entry(`,"customCAData":` + marshal(t, base64Of(text))) }
	reader := &objects{secrets: map[string]*corev1.Secret{"header": opaque(
		"authHeader", "Bearer "+password+"\n", "other", "Other "+password, "empty", " \n", "binary", password+"\xff")}}
	resolve := func(entry string) sdk.ChartRepositoryCredentials {
		t.Helper()
		got, err := Credentials(t.Context(), reader, withRepositories(newContext(), `{"auths":[`+entry+`]}`))
		if err != nil || len(got.ChartRepositories) != 1 {
			t.Fatalf("%s: found %v, %v", entry, got, err)
		}
		return got.ChartRepositories[0]
	}
	for name, tc := range map[string]struct{ entry, header, ca string }{
		"nothing":       {entry: entry("")},
		"header":        {entry: entry(`,"authHeader":"Basic ` + password + `"`), header: "Basic " + password},
		"end of line":   {entry: entry(`,"authHeader":" Basic a\r\n"`), header: "Basic a"},
		"longest":       {entry: entry(`,"authHeader":"` + long + `"`), header: long},
		"Secret":        {entry: entry(`,"secretRef":{"name":"header"}`), header: "Bearer " + password},
		"key of Secret": {entry: entry(`,"secretRef":{"name":"header","key":"other"}`), header: "Other " + password},
		"authority":     {entry: ca(certificate), ca: certificate},
		"bundle":        {entry: ca("# a\n" + certificate + "# b\n" + certificate), ca: certificate + certificate},
		"with a key":    {entry: ca(key + certificate), ca: certificate},
	} {
		want := sdk.ChartRepositoryCredentials{URL: address, AuthHeader: tc.header}
		if tc.ca != "" {
			want.CAData = []byte(tc.ca)
		}
		if diff := cmp.Diff(want, resolve(tc.entry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}

	const (
		control = `.authHeader: has a control character, such as an end of line; remove it`
		noURL   = `.url: expected https:// or http:// and a host`
		noPEM   = `.customCAData: holds no certificate in PEM once decoded from base64, or an invalid one`
	)
	for _, tc := range []struct{ entry, problem string }{
		{entry(`,"authHeader":"` + password + `","secretRef":{"name":"header"}`),
			`: has both authHeader and secretRef; remove one of them`},
		{entry(`,"authHeader":"` + password + `\r\nX-Other: a"`), control},
		{entry(`,"authHeader":"` + password + `\u007fa"`), control},
		{entry(`,"authHeader":"` + long + `x"`), `.authHeader: has 16385 bytes; at most 16384 are allowed`},
		{entry(`,"authHeader":31337`), `.authHeader: expected a text, but found a number; quotes make it a text; correct it`},
		{entry(`,"secretRef":{"name":"gone"}`),
			`.secretRef.name: there is no Secret "shop/gone"; create it, or remove the entry`},
		{
			entry(`,"secretRef":{"name":"header","key":"typo"}`),
			`.secretRef: Secret "shop/header": has no key "typo"; add it, or correct ` +
				`configurations.helmChartRepoCredentials.auths[0].secretRef.key`,
		},
		{entry(`,"secretRef":{"name":"header","key":"empty"}`),
			`.secretRef: Secret "shop/header": empty: is empty; put the value of the header Authorization into it`},
		{entry(`,"secretRef":{"name":"header","key":"binary"}`),
			`.secretRef: Secret "shop/header": binary: is not UTF-8; expected the value of the header Authorization`},
		{`{"authHeader":"` + password + `"}`, `.url: is missing; set it to the URL of the repository`},
		{`{"url":"https://me:` + password + `@charts.example.org/stable"}`,
			`.url: has a user in it; put the credentials into authHeader or secretRef`},
		{`{"url":"https://` + password + `\u007f/"}`, `.url: is no URL; expected one such as https://charts.example.org`},
		{`{"url":"https://"}`, noURL},
		{`{"url":"me:` + password + `@charts.example.org"}`, noURL}, // what is before the colon is no scheme
		{`{"url":"oci://r.example.org/charts"}`, noURL},
		{entry(`,"customCAData":"` + password + `!"`),
			`.customCAData: is not valid base64; expected certificates in PEM, in base64`},
		{entry(`,"customCAData":` + marshal(t, certificate)),
			`.customCAData: is PEM as such; encode it in base64, as in the certificate-authority-data of a kubeconfig`},
		{ca(password), noPEM},
		{ca(certificate + "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), noPEM},
	} {
		want := sdk.ChartRepositoryCredentials{
			Problem: `Context "shop/default": configurations.helmChartRepoCredentials.auths[0]` + tc.problem,
		}
		// A URL stays that can be read, without the user in it; an entry with a number for a text cannot be read at all.
		if strings.Contains(tc.entry, "charts.example.org/stable") && !strings.Contains(tc.entry, "31337") {
			want.URL = address
		}
		if diff := cmp.Diff(want, resolve(tc.entry)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.entry, diff)
		}
	}
}

// long is the longest header that is taken.
var long = strings.Repeat("x", maxHeader)

func TestChartRepositories(t *testing.T) {
	t.Parallel()
	const root = `Context "shop/default": configurations.helmChartRepoCredentials`
	many := "{" + strings.TrimSuffix(strings.Repeat(`"url":"https://a"},{`, maxEntries+1), ",{")
	for name, tc := range map[string]struct {
		reason, document string
		want             []sdk.ChartRepositoryCredentials
	}{
		"Null": {"nothing is named", `null`, nil},
		"Order": {"one spoils no other", `{"auths":[{"url":"https://a","authHeader":"1"},{},{"url":"https://b"}],"other":1}`,
			[]sdk.ChartRepositoryCredentials{
				{URL: "https://a", AuthHeader: "1"},
				{Problem: root + `.auths[1].url: is missing; set it to the URL of the repository`},
				{URL: "https://b"},
			}},
		"List": {"the whole cannot be read", `["` + password + `"]`,
			[]sdk.ChartRepositoryCredentials{{Problem: root + `: expected an object, but found a list; correct it`}}},
		"NotJSON": {"a parser would quote it",
			password, []sdk.ChartRepositoryCredentials{{Problem: root + `: is no valid JSON; correct it`}}},
		"TooMany": {
			"each may cost a request", `{"auths":[` + many + `]}`,
			append(slices.Repeat([]sdk.ChartRepositoryCredentials{{URL: "https://a"}}, maxEntries),
				sdk.ChartRepositoryCredentials{Problem: root + `.auths: has 51 entries, but only the first 50 count; remove some`}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Credentials(t.Context(), &objects{}, withRepositories(newContext(), tc.document))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&sdk.Credentials{ChartRepositories: tc.want}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// What a plugin sees of the Context has neither the configuration nor the copy that kubectl keeps of it.
func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	lsContext := withRepositories(newContext("pull"), `{"auths":[{"url":"https://a","authHeader":"`+password+`"}]}`)
	lsContext.ObjectMeta = metav1.ObjectMeta{Name: "default", Annotations: map[string]string{
		corev1.LastAppliedConfigAnnotation: password, "mine": "stays",
	}}
	before := marshal(t, lsContext)
	got := marshal(t, WithoutCredentials(lsContext))
	if strings.Contains(got, password) || !strings.Contains(got, "stays") ||
		!strings.Contains(got, `"configurations":{"other":{}}`) || !strings.Contains(got, "pull") {
		t.Errorf("expected all but the credentials, but found %s", got)
	}
	if marshal(t, lsContext) != before {
		t.Error("the Context itself was changed")
	}
	if plain := newContext("pull"); WithoutCredentials(plain) != plain {
		t.Error("expected a Context without credentials as it is")
	}
}
