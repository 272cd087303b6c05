package watchdog

import (
	"encoding/base64"
	"strings"
	"testing"
)

const (
	key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIF0aYkqoEZzs2Xj9x0\n-----END PRIVATE KEY-----\n"
	pin = "48151623-42"

	gcp = `{"credentials":{"type":"service_account","universe_domain":"googleapis.com","client_id":"1234567890123",` +
		`"client_email":"deployer@prod.example.org","private_key":"-----BEGIN PRIVATE KEY-----\n` +
		`MC4CAQAwBQYDK2VwBCIEIF0aYkqoEZzs2Xj9x0\n-----END PRIVATE KEY-----\n","token_uri":"https://oauth2.example.org"}}`
	access = `{"credentials":{"region":"eu-central-1","stage":"stage-four4","accessKey":"` + pin + `"}}`
	login  = `{"auth":{"username":"administrator1","password":"` + pin + `"}}`
)

// TestSecrets: credentials of a Target are secret in each form, and nothing beside them.
func TestSecrets(t *testing.T) {
	t.Parallel()
	kubeconfig := `{"kubeconfig": "apiVersion: v1\nkind: Config\nclusters:\n- name: prod\n  cluster: {server: ` +
		`\"https://prod.example.org:6443\", certificate-authority-data: Q0VSVElGSUNBVEUtT0YtUFJPRA==}\n` +
		`users:\n- name: deployer-of-prod\n  user: {token: abcdefgh.12345678, client-key-data: ` +
		base64.StdEncoding.EncodeToString([]byte(key)) + `}\n"}`
	for name, test := range map[string]struct {
		content, item string
		text          string
		secret        bool
	}{
		"the token of a kubeconfig":       {kubeconfig, "", "401 for Bearer abcdefgh.12345678", true},
		"the token in base64":             {kubeconfig, "", "YWJjZGVmZ2guMTIzNDU2Nzg", true},
		"a line of its key":               {kubeconfig, "", "parse MC4CAQAwBQYDK2VwBCIEIF0aYkqoEZzs2Xj9x0", true},
		"the server of a kubeconfig":      {kubeconfig, "", "dial https://prod.example.org:6443: refused", false},
		"the CA of a kubeconfig":          {kubeconfig, "", "Q0VSVElGSUNBVEUtT0YtUFJPRA==", false},
		"the name of a user":              {kubeconfig, "", "deployer-of-prod may not list pods", false},
		"the frame of a key":              {kubeconfig, "", "-----BEGIN PRIVATE KEY-----", false},
		"an own token":                    {`{"url":"https://a.example.org","apiToken":"` + pin + `"}`, "", pin, true},
		"YAML":                            {"url: a.example.org\npassword: " + pin, "", pin, true},
		"a list":                          {`{"credentials":[{"value":"` + pin + `"}]}`, "", pin, true},
		"the name of a Secret":            {`{"secretName":"shop-credentials"}`, "", "shop-credentials", false},
		"the address for tokens":          {`{"tokenURL":"https://a.example.org"}`, "", "https://a.example.org", false},
		"the user beside a password":      {login, "", "administrator1", false},
		"the password beside a user":      {login, "", pin, true},
		"a short password":                {`{"password":"s3cret"}`, "", "s3cret", false},
		"a password of a word":            {`{"password":"password"}`, "", "the password is wrong", false},
		"a password that the item has":    {`{"password":"` + pin + `"}`, `{"spec":"` + pin + `"}`, pin, false},
		"the whole content":               {"0123456789abcdef", "", "no such token: 0123456789abcdef", true},
		"the domain in a key of GCP":      {gcp, "", "https://iam.googleapis.com", false},
		"the e-mail in a key of GCP":      {gcp, "", "deployer@prod.example.org may not list zones", false},
		"the client in a key of GCP":      {gcp, "", "client 1234567890123", false},
		"the secret in a key of GCP":      {gcp, "", "parse MC4CAQAwBQYDK2VwBCIEIF0aYkqoEZzs2Xj9x0", true},
		"the tenant of a login":           {`{"auth":{"tenant":"production-eu"}}`, "", "production-eu", false},
		"the region of credentials":       {`{"credentials":{"region":"eu-central-1"}}`, "", "eu-central-1", false},
		"the key beside a region":         {access, "", pin, true},
		"a part of credentials":           {`{"credentials":{"region":"eu-central-1","pin":"` + pin + `"}}`, "", pin, true},
		"a value beside a secret":         {access, "", "stage-four4", false},
		"a zone":                          {`{"privateZone":"corp.example.org"}`, "", "corp.example.org", false},
		"the expiry of a token":           {`{"tokenExpiry":"2026-12-01"}`, "", "2026-12-01", false},
		"no content":                      {"", "", "", false},
		"half a document":                 {`{"token": "` + pin, "", `unexpected end of {"token": "` + pin, true},
		"the rest of a text with a token": {kubeconfig, "", strings.Repeat("x", 1<<10), false},
	} {
		s := &Secrets{}
		s.Add([]byte(test.content), []byte(test.item))
		if which, found := s.In([]byte(test.text)); found != test.secret {
			t.Errorf("%s: expected secret %t, but found %q", name, test.secret, which)
		}
	}
}

// A secret may be at the border of two writes.
func TestSecretInALog(t *testing.T) {
	t.Parallel()
	w, found := New(), 0
	w.Secrets.Note("password", pin)
	w.ReportTo(func(_ Breach, message string) {
		if found++; strings.Contains(message, pin) || !strings.Contains(message, `"password"`) {
			t.Errorf("expected the key without the secret, but found %s", message)
		}
	})
	log := w.Log(nil)
	for _, text := range []string{"the token is " + pin[:5], pin[5:], " and more"} {
		if _, err := log.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if found != 1 {
		t.Errorf("expected one breach, but found %d", found)
	}
}
