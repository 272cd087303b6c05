package httphook

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// addTLS adds the content of a registration's secret to its TLS settings: the authorities of the server, the host's own
// certificate, or both. The error names the key of the secret and holds nothing of its content.
func addTLS(config *tls.Config, secret map[string][]byte) error {
	authorities, hasAuthorities := secret[corev1.ServiceAccountRootCAKey]
	certificate, hasCertificate := secret[corev1.TLSCertKey]
	key, hasKey := secret[corev1.TLSPrivateKeyKey]
	switch {
	// An empty secret must not pass for the authorities of the system.
	case !hasAuthorities && !hasCertificate && !hasKey:
		return fmt.Errorf("expected one of the keys %s, %s and %s, but found none",
			corev1.ServiceAccountRootCAKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	case hasCertificate != hasKey:
		return fmt.Errorf("expected the keys %s and %s together, but found only one of them",
			corev1.TLSCertKey, corev1.TLSPrivateKeyKey)
	}
	if hasAuthorities {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(authorities) {
			return fmt.Errorf("expected certificates in PEM in the key %s, but found none", corev1.ServiceAccountRootCAKey)
		}
	}
	if hasCertificate {
		pair, err := tls.X509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("expected a certificate and its private key in PEM in the keys %s and %s: %w",
				corev1.TLSCertKey, corev1.TLSPrivateKeyKey, err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return nil
}

// authorization makes the value of the header Authorization from the data of a registration's secret. The error names
// the key of the secret and holds nothing of its content.
func authorization(secret map[string][]byte) (string, error) {
	token, hasToken := secret[corev1.ServiceAccountTokenKey]
	user, hasUser := secret[corev1.BasicAuthUsernameKey]
	password, hasPassword := secret[corev1.BasicAuthPasswordKey]
	switch {
	case hasToken && (hasUser || hasPassword):
		return "", fmt.Errorf("expected either the key %s, or %s and %s, but found both",
			corev1.ServiceAccountTokenKey, corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
	case hasToken:
		return bearer(string(token))
	case !hasUser || !hasPassword:
		return "", fmt.Errorf("expected the key %s, or %s and %s, but found none", corev1.ServiceAccountTokenKey,
			corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey)
	case strings.Contains(string(user), ":"):
		return "", fmt.Errorf("expected a name without a colon in the key %s, as the header cannot hold one",
			corev1.BasicAuthUsernameKey)
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(string(user)+":"+string(password))), nil
}

// bearer takes a token as people write it into secrets: with a newline at its end.
func bearer(token string) (string, error) {
	token = strings.TrimRight(token, "\r\n")
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", errors.New("expected a token of visible ASCII characters in the key " + corev1.ServiceAccountTokenKey)
	}
	return "Bearer " + token, nil
}
