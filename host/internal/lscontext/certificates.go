package lscontext

import (
	"encoding/base64"
	"errors"
	"strings"

	"k8s.io/client-go/util/cert"
)

// Certificates returns the certificates of a text, in PEM, in base64, the only form accepted by Landscaper. It drops
// keys beside them: no plugin needs those.
func Certificates(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if strings.Contains(text, "-----BEGIN ") {
		return nil, errors.New("is PEM as such; encode it in base64, as in the certificate-authority-data of a kubeconfig")
	}
	decoded, err := base64.StdEncoding.DecodeString(strings.TrimSpace(text))
	if err != nil {
		return nil, errors.New("is not valid base64; expected certificates in PEM, in base64")
	}
	found, err := cert.ParseCertsPEM(decoded)
	if err != nil { // it might quote the text
		return nil, errors.New("holds no certificate in PEM once decoded from base64, or an invalid one")
	}
	return cert.EncodeCertificates(found...)
}
