"""The composition root: configuration -> adapters -> pipelines -> servers, and the order in which they start and stop.

Start: what may refuse the configuration first (model, turn log, store), the ports last, so that whoever connects is
served. Stop: take no new work, let what runs end, give back what is left, close.
"""

import asyncio
import signal
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import uvloop

from semrouter_memory.config import Config, ExternalModel, secret
from semrouter_memory.embedding.onnx import OnnxEmbedder
from semrouter_memory.exchange.exchange import ExchangeSettings
from semrouter_memory.llm.client import OpenAIChatModel
from semrouter_memory.manage.http import create_user_api
from semrouter_memory.manage.operator import Exposition, Readiness, create_operator_api
from semrouter_memory.manage.server import HttpServer, serve_http
from semrouter_memory.manage.service import MemoryService
from semrouter_memory.model import Scope
from semrouter_memory.ports import Observer
from semrouter_memory.recall.pipeline import Recaller
from semrouter_memory.recall.rewrite import QueryRewriter
from semrouter_memory.retain.pipeline import Retainer
from semrouter_memory.retain.redact import redact
from semrouter_memory.sessions.locks import InProcessOwnerLocks
from semrouter_memory.sessions.sqlite import SqliteTurnLog
from semrouter_memory.store.milvus import MilvusStore
from semrouter_memory.telemetry import logs
from semrouter_memory.telemetry.metrics import Metrics
from semrouter_memory.telemetry.observer import TelemetryObserver
from semrouter_memory.transport.processor import Processor
from semrouter_memory.transport.server import ExtProcServer, require_local_or_secret
from semrouter_memory.workers import WorkerPool
