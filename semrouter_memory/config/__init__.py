"""The configuration file, as frozen sections. Each component is given its section, never the whole.

Precedence: environment (`SEMROUTER_MEMORY__MEMORY__MILVUS__URI=...`) over the YAML file over the defaults here.
Secrets come only from the environment or from files that the YAML names; a secret written into the YAML is an error.
"""

from semrouter_memory.config.loading import ENV_PREFIX, Config, load, secret_readers, variable_of
from semrouter_memory.config.memory import (
    AgeingConfig,
    CompressionConfig,
    EmbeddingConfig,
    IdentityConfig,
    KnowledgeConfig,
    MemoryConfig,
    MilvusConfig,
    OwnerIndexConfig,
    RecallConfig,
    RedisConfig,
    RetainConfig,
    ShareConfig,
    SignalsConfig,
)
from semrouter_memory.config.section import secret
from semrouter_memory.config.service import (
    ExternalModel,
    LlmEndpoint,
    MaintenanceConfig,
    ManagementConfig,
    RecordingConfig,
    ReflectionConfig,
    ServerConfig,
    TelemetryConfig,
    TracingConfig,
)
