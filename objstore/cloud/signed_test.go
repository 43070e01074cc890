//go:build !nocloud

package cloud

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/storage"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/sas"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"leat/objstore"
)

func TestIDIgnoresProviderSignatures(t *testing.T) {
	now := time.Now()
	for name, sign := range map[string]func(n int) (string, error){
		"S3 version 4": func(n int) (string, error) {
			c := s3.New(s3.Options{Region: "eu-west-1",
				Credentials: credentials.NewStaticCredentialsProvider(fmt.Sprint("id", n), "secret", "session")})
			r, err := s3.NewPresignClient(c,
				s3.WithPresignExpires(time.Duration(n+1)*time.Hour)).PresignGetObject(t.Context(),
				&s3.GetObjectInput{Bucket: aws.String("b"), Key: aws.String("a/x.tif")})
			if err != nil {
				return "", err
			}
			return r.URL, nil
		},
		"Google version 4": func(n int) (string, error) { return googleSigned(n, now, storage.SigningSchemeV4) },
		"Google version 2": func(n int) (string, error) { return googleSigned(n, now, storage.SigningSchemeV2) },
		"Azure": func(n int) (string, error) {
			key, err := azblob.NewSharedKeyCredential("account", base64.StdEncoding.EncodeToString([]byte("key")))
			if err != nil {
				return "", err
			}
			q, err := sas.BlobSignatureValues{ContainerName: "c", BlobName: "x.tif", Permissions: "r",
				ExpiryTime: now.Add(time.Duration(n+1) * time.Hour)}.SignWithSharedKey(key)
			if err != nil {
				return "", err
			}
			return "https://account.blob.core.windows.net/c/x.tif?" + q.Encode(), nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ids [2]string
			for n := range ids {
				url, err := sign(n)
				if err != nil {
					t.Fatal(err)
				}
				host, object, err := objstore.Split(url)
				if err != nil {
					t.Fatal(err)
				}
				b, err := objstore.Open(t.Context(), host, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer b.Close()
				if ids[n] = b.ID(object); !strings.Contains(url, "?") || strings.Contains(ids[n], "~") {
					t.Errorf("%s is %s", url, ids[n])
				}
			}
			if ids[0] != ids[1] {
				t.Errorf("%q", ids)
			}
		})
	}
}

func googleSigned(n int, now time.Time, scheme storage.SigningScheme) (string, error) {
	return storage.SignedURL("b", "x.tif",
		&storage.SignedURLOptions{GoogleAccessID: "me@example.org", Method: "GET", Scheme: scheme,
			Expires:   now.Add(time.Duration(n+1) * time.Hour),
			SignBytes: func(b []byte) ([]byte, error) { return append([]byte(fmt.Sprint(n)), b...), nil }})
}
