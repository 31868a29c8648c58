package mskiam

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	signer "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/aws_msk_iam_v2"
)

// Name of the mechanism.
const Name = "AWS_MSK_IAM"

// freshFor is how long credentials must hold at a login. A session ends with them.
const freshFor = 5 * time.Minute

// Options of a login.
type Options struct {
	// Region of the cluster.
	Region string
	// Load finds credentials. Defaults to the SDK's chain: environment, shared files, web identity
	// (IRSA), the endpoints of containers and of EC2.
	Load func(context.Context) (aws.Credentials, error)
	// Now defaults to time.Now.
	Now func() time.Time
}

// Mechanism is a sasl.Mechanism that is safe for concurrent use.
type Mechanism struct {
	options Options

	mu   sync.Mutex
	kept aws.Credentials
}

var _ sasl.Mechanism = (*Mechanism)(nil)

// New returns a mechanism. It does not look for credentials yet.
func New(o Options) *Mechanism {
	if o.Load == nil {
		o.Load = fromChain(o.Region)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Mechanism{options: o}
}

// fromChain returns what runs through the SDK's chain from its beginning, so that files are read
// again.
func fromChain(region string) func(context.Context) (aws.Credentials, error) {
	return func(ctx context.Context) (aws.Credentials, error) {
		c, err := config.LoadDefaultConfig(ctx, config.WithRegion(region))
		if err != nil {
			return aws.Credentials{}, err
		}
		return c.Credentials.Retrieve(ctx)
	}
}

// Name implements sasl.Mechanism.
func (m *Mechanism) Name() string { return Name }

// Start implements sasl.Mechanism. It finds credentials again, but for temporary ones that are
// still fresh.
func (m *Mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	credentials, err := m.credentials(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("find AWS credentials: %w", err)
	}
	signed := &aws_msk_iam_v2.Mechanism{
		Signer: signer.NewSigner(), Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return credentials, nil }),
		Region: m.options.Region, SignTime: m.options.Now(),
	}
	return signed.Start(ctx)
}

func (m *Mechanism) credentials(ctx context.Context) (aws.Credentials, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept.CanExpire && m.options.Now().Add(freshFor).Before(m.kept.Expires) {
		return m.kept, nil
	}
	var err error
	m.kept, err = m.options.Load(ctx)
	return m.kept, err
}
